"""The one prompt that all models get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
PREFLIGHT = "Reply with the single word: ready"
"""The one cheap call before the others; it is never stored."""
_WITHOUT_GUIDELINES = {"no_guidelines", "web_search_no_guidelines"}


@dataclass(frozen=True, slots=True)
class Prompt:
    """The two messages of a call."""

    system: str
    user: str

    def messages(self) -> list[dict[str, str]]:
        """As chat APIs want them."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]


def guidelines_text(experiment: str, custom: str) -> str:
    """The guidelines of an experiment; empty for the ones that go without."""
    if custom:
        return Path(custom).read_text(encoding="utf-8").strip()
    if experiment in _WITHOUT_GUIDELINES:
        return ""
    return (_HERE / "guidelines.md").read_text(encoding="utf-8").strip()


class PromptMaker:
    """Puts tasks into the templates, which are read once."""

    def __init__(self, guidelines: str) -> None:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        templates = Environment(
            loader=FileSystemLoader(_HERE),
            undefined=StrictUndefined,
            keep_trailing_newline=False,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,  # noqa: S701 - plain text, not HTML
        )
        self._system = templates.get_template("system.md.j2").render().strip()
        self._user = templates.get_template("user.md.j2")
        self._guidelines = guidelines

    def prompt(self, task: str) -> Prompt:
        """The prompt for a task, with guidelines unless they are empty."""
        user = self._user.render(task=task.strip(), guidelines=self._guidelines)
        return Prompt(system=self._system, user=user.strip())
