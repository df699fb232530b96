"""Which projects the toolchain worker pushes itself, and which it leaves to the Convex CLI."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.packages import PackageStore, link_packages
from pytest_convex_evals.grading.toolchain import ToolchainWorker

NOWHERE = "http://127.0.0.1:1"
PACKAGE = {"dependencies": {"convex": "1.48.0"}}


@pytest.fixture(scope="module")
def worker():
    running = ToolchainWorker(ensure_toolchain)
    yield running
    running.close()


@pytest.fixture(scope="module")
def real_set() -> Path:
    found = PackageStore(toolchain_root() / "packages", ensure_toolchain()).install(Manifest({"convex": "1.48.0"}))
    assert isinstance(found, Path)
    return found


class Store:
    """A package store of its own, with one set that tests may spoil."""

    def __init__(self, root: Path, real: Path) -> None:
        self.root, self.set = root / "store", root / "store" / "set"
        self.modules = self.set / "node_modules"
        self.modules.mkdir(parents=True)
        (self.modules / ".package-lock.json").write_bytes((real / "node_modules" / ".package-lock.json").read_bytes())
        for entry in (real / "node_modules").iterdir():
            if entry.is_dir():
                shutil.copytree(entry, self.modules / entry.name, symlinks=True, copy_function=_link)
        for folder in [self.set, *self.set.rglob("*")]:
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o755)
        self.script = self.modules / "convex" / "dist" / "cli.bundle.cjs"
        # Copies, because tests spoil them.
        for path in (self.script, self.modules / "convex" / "package.json"):
            text = path.read_bytes()
            path.unlink()
            path.write_bytes(text)

    def entry(self, name: str, /, **changes: object) -> None:
        """Change what npm wrote down about a package; None removes a key."""
        path = self.modules / ".package-lock.json"
        lock = json.loads(path.read_text())
        entry = lock["packages"][f"node_modules/{name}"] | changes
        lock["packages"][f"node_modules/{name}"] = {key: value for key, value in entry.items() if value is not None}
        path.write_text(json.dumps(lock))


def _link(source: str, target: str) -> None:
    try:
        Path(target).hardlink_to(source)
    except OSError:  # another file system
        shutil.copy2(source, target)


@pytest.fixture
def store(tmp_path: Path, real_set: Path) -> Store:
    return Store(tmp_path, real_set)


@pytest.fixture
def deploy(tmp_path: Path, store: Store, worker: ToolchainWorker) -> Callable[..., Any]:
    def deploy(package: object = PACKAGE) -> Any:
        project = tmp_path / "attempt" / "project"
        (project / "convex").mkdir(parents=True, exist_ok=True)
        (tmp_path / "attempt" / "scratch").mkdir()
        (project / "package.json").write_text(json.dumps(package))
        (project / "convex" / "a.ts").write_text("export const a = 1;\n")
        link_packages(project, store.set)
        params = {"project": str(project), "store": str(store.root), "url": NOWHERE, "adminKey": "key"}
        return worker.request("deploy", params, deadline_s=60)

    return deploy


def unfit(code: str, reason: str) -> dict[str, str]:
    return {"outcome": "unfit", "code": code, "reason": reason}


def test_a_backend_that_is_gone_ends_the_push_at_once(real_set, store, deploy):
    store.root, store.set = real_set.parent, real_set
    answer = deploy()
    assert (answer["outcome"], answer["code"]) == ("unfit", "unreachable")
    assert " of the backend cannot be reached: connect ECONNREFUSED " in answer["reason"]


@pytest.mark.parametrize("version", ["1.30.9", "1.49.0", "2.0.0", "1.48.0-alpha.1", "0.31.0"])
def test_a_version_that_was_never_compared_is_left_to_its_cli(version, store, deploy):
    store.entry("convex", version=version)
    assert deploy() == unfit("version", f"convex {version} is outside 1.31 to 1.48")


@pytest.mark.parametrize(
    "changes",
    [{"name": "another-package"}, {"link": True}, {"inBundle": True}, {"integrity": None}, {"version": None}],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.parametrize("name", ["convex", "esbuild", "prettier"])
def test_a_package_that_is_not_the_registrys_never_runs_in_the_worker(name, changes, store, deploy):
    store.entry(name, **changes)
    assert deploy() == unfit("package", f"node_modules/{name} is not a package of the registry under its own name")


def test_packages_outside_the_store_never_run_in_the_worker(store, deploy):
    store.root = store.root.parent
    assert deploy() == unfit("package", "the packages are not those of a set in the package store")


def test_a_set_without_a_list_of_what_was_installed_never_runs_in_the_worker(store, deploy):
    (store.modules / ".package-lock.json").write_text("{")
    answer = deploy()
    assert (answer["code"], answer["reason"][:39]) == ("package", "what npm installed is not written down:")


def test_a_cli_that_is_built_differently_is_left_alone(store, deploy):
    store.script.write_text(store.script.read_text().replace("\nvoid main();\n", "\nmain();\n"))
    assert deploy() == unfit("library", "the CLI of convex 1.48.0 does not end as expected")


def test_a_cli_without_the_functions_that_are_needed_is_left_alone(store, deploy):
    store.script.write_text("async function runPush() {}\nvoid main();\n")
    missing = "WatchContext, Crash, readProjectConfig, showSpinner, stopSpinner, warnedUnknownKeys"
    assert deploy() == unfit("library", f"the CLI of convex 1.48.0 has no {missing}")


SMALL_CLI = """\
class Crash extends Error { constructor(errorType) { super("crash"); this.errorType = errorType; } }
class WatchContext {}
const warnedUnknownKeys = new Set();
const readProjectConfig = async () => {};
const showSpinner = () => {};
const stopSpinner = () => {};
const runPush = async () => { %s };
void main();
"""


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        ('throw new Error("odd")', "defect", "the CLI broke: Error: odd"),
        ("process.exit(3)", "defect", "the CLI wanted to end the process with 3"),
        ('console.log("busy"); throw new Crash("transient")', "transient", "the CLI would try again: busy\n"),
        ('throw new Crash("already handled")', "transient", "the CLI would try again: "),
        ("throw new Crash()", "defect", "the CLI broke: Error: crash"),
    ],
)
def test_what_the_cli_does_not_expect_is_left_to_it(body, code, reason, store, deploy):
    store.script.write_text(SMALL_CLI % body)
    assert deploy() == unfit(code, reason)


@pytest.mark.parametrize("error", ['"fatal"', '"invalid filesystem data"', '{ "invalid filesystem or db data": null }'])
def test_errors_after_which_the_cli_ends_are_refusals(error, store, deploy):
    store.script.write_text(SMALL_CLI % f'process.stderr.write("no\\n"); throw new Crash({error})')
    assert deploy() == {"outcome": "refused", "said": "no\n"}


def test_the_cli_sees_an_environment_of_its_own_and_hooks_nothing(store, deploy):
    body = 'process.on("exit", () => {}); require("process").env.MINE = 1; console.error(JSON.stringify(process.env))'
    store.script.write_text(SMALL_CLI % body)
    said = json.loads(deploy()["said"])
    assert said == {"CI": "1", "NO_COLOR": "1", "CONVEX_TMPDIR": "../scratch", "MINE": 1}


def test_a_project_that_does_not_list_convex_is_left_to_the_cli(deploy):
    assert deploy({"dependencies": {"other": "1"}}) == unfit("manifest", "package.json does not list convex")


def test_the_worker_goes_back_to_its_own_folder(store, deploy, worker):
    store.script.write_text(SMALL_CLI % "console.error(process.cwd())")
    project = deploy()["said"].strip()
    shutil.rmtree(Path(project).parent)
    assert isinstance(worker.request("sources", {"files": {"package.json": "{}"}}, deadline_s=60), dict)


def test_parameters_are_checked(worker):
    with pytest.raises(Trouble, match="project, store, url and adminKey are needed"):
        worker.request("deploy", {"project": "/"}, deadline_s=60)


def test_a_project_that_reads_files_of_others_is_left_to_the_caged_cli(deploy, tmp_path):
    (tmp_path / "secret.json").write_text('{"key": "of somebody else"}')
    attempt = tmp_path / "attempt" / "project" / "convex"
    attempt.mkdir(parents=True)
    (attempt / "leak.ts").write_text('import secret from "../../../secret.json";\nexport const leaked = secret.key;\n')
    answer = deploy()
    assert answer["code"] == "outside"
    assert answer["reason"] == "the sources name a file outside the project"
