"""`convex-evals list` and `convex-evals models`."""

from __future__ import annotations

from pathlib import Path

from pytest_convex_evals.cells import TASK_FILE
from pytest_convex_evals.cli.output import say, table
from pytest_convex_evals.environment import Environment
from pytest_convex_evals.errors import BrokenEval, SettingsError
from pytest_convex_evals.models.registry import registry


def list_evals(folder: Path) -> int:
    """Every eval with its pipeline, its grader and its proof; broken ones say why."""
    from pytest_convex_evals.suite.evals import eval_identity, load_eval
    from pytest_convex_evals.suite.wrong import load_wrong, wrong_slugs

    tasks = sorted(folder.glob(f"*/*/{TASK_FILE}"))
    if not tasks:
        raise SettingsError(f"there is no eval in {folder}/.\n  what to do: name the folder that holds the categories")
    rows, problems = [("eval", "pipeline", "wrong submissions", "tags")], []
    for task in tasks:
        try:
            item = load_eval(task)
            slugs = wrong_slugs(item.root)
            for slug in slugs:
                load_wrong(item, slug)
            rows.append((item.id, item.pipeline, str(len(slugs)), " ".join(item.tags)))
        except BrokenEval as problem:
            rows.append(("/".join(eval_identity(task)), "broken", "-", ""))
            problems.append(str(problem))
    for line in table(rows):
        say(line)
    say(f"\n{len(tasks)} evals, {len(problems)} broken")
    for text in problems:
        say(text)
    return 1 if problems else 0


def list_models(pattern: str) -> int:
    """The registry, with the variables that hold the keys."""
    environment = Environment.read(Path.cwd()).merged()
    rows = [("name", "display", "provider", "litellm id", "reasoning", "key")]
    for model in registry(Path.cwd()).values():
        if pattern.lower() in f"{model.name} {model.litellm} {model.provider} {model.display}".lower():
            key = f"{model.key} ({'set' if environment.get(model.key) else 'not set'})" if model.key else "-"
            rows.append((model.name, model.display, model.provider, model.litellm, model.reasoning or "-", key))
    for line in table(rows):
        say(line)
    say("\nother ids that litellm can route work too, as provider/model; a models.toml in the project adds names")
    return 0
