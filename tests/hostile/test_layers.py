# ruff: noqa: E501 - programs in tables stay on one line
"""Each layer is switched off, all others stay as runners have them: another one catches the attempt, or it is on the list."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_convex_evals.cage import levels
from pytest_convex_evals.cage.levels import INSIDE, Cage
from pytest_convex_evals.cage.program import Limits, Program
from pytest_convex_evals.engine.setup import ensure_toolchain
from pytest_convex_evals.grading import manifest, npm
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.packages import PackageStore
from pytest_convex_evals.records import Failed
from tests.hostile.conftest import Listener
from tests.support.cages import ISOLATING, cage_of
from tests.support.npm_registry import NpmRegistry

SCRIPT = f"{INSIDE}/script.mjs"
PERMISSION = ("--permission", f"--allow-fs-read={SCRIPT}", "--no-warnings")
DOCS = Path(__file__).parents[2] / "docs" / "security.md"
PROGRAM = """
const load = (name) => process.getBuiltinModule(name);
const tried = async (act) => { try { return await act() ?? "did"; } catch (error) { return error.code ?? error.message; } };
console.log(JSON.stringify(await tried(async () => { %s })));
process.exit(0);
"""
Words = list[str]


@dataclass(frozen=True)
class Layer:
    """A layer, an attempt that it stops, and what happens when it is not there."""

    name: str
    attempt: str
    refused: str
    """What the attempt ends with when all layers are there."""
    off: str
    """Which part is switched off."""
    without: str
    """What it ends with then: `did`, or what another layer says."""

    @property
    def alone(self) -> bool:
        return self.without == "did"


CONNECT = 'const s = load("net").connect({PORT}, "127.0.0.1"); await new Promise((ok, no) => { s.on("connect", ok); s.on("error", no); })'
LAYERS = [
    Layer("files", 'load("fs").readFileSync("{SECRET}")', "ERR_ACCESS_DENIED", "files", "ERR_ACCESS_DENIED"),
    Layer("network", CONNECT, "ECONNREFUSED", "network", "did"),
    Layer("processes", "process.kill({PID}, 0)", "ESRCH", "processes", "did"),
    Layer("filter", 'const done = load("child_process").spawnSync(process.execPath, ["--version"]); if (done.error) throw done.error', "ERR_ACCESS_DENIED", "filter", "ERR_ACCESS_DENIED"),
    Layer("environment", 'if (process.env.KEY === undefined) throw new Error("no key")', "no key", "environment", "no key"),
    Layer("limits", 'for (let n = 0; n < 99; n++) load("fs").openSync("{SCRIPT}")', "EMFILE", "limits", "did"),
    Layer("permission model and files", 'load("fs").readFileSync("{SECRET}")', "ERR_ACCESS_DENIED", "permission", "ENOENT"),
    Layer("permission model", 'new (load("worker_threads").Worker)("1", { eval: true })', "ERR_ACCESS_DENIED", "permission", "did"),
]  # fmt: skip
"""The environment is empty twice: the cage clears it, and whoever starts a cage passes nothing on."""


@pytest.fixture(params=ISOLATING)
def cage(request) -> Cage:
    return cage_of(request.param)


@pytest.fixture
def attempt(cage, tmp_path, monkeypatch):
    """Make an attempt of a layer with a part switched off."""
    secret, listener = tmp_path / "secret", Listener()
    secret.write_text("secret")
    victim = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    places = {"SECRET": str(secret), "PORT": str(listener.port), "PID": str(victim.pid), "SCRIPT": SCRIPT}

    def attempt(layer: Layer, off: str) -> str:
        text = PROGRAM % layer.attempt
        for name, value in places.items():
            text = text.replace(f"{{{name}}}", value)
        script = tmp_path / "script.mjs"
        script.write_text(text, encoding="utf-8")
        program = Program(read={SCRIPT: script}, limits=Limits(open_files=64))
        if off in {"network", "processes", "filter"} and cage.level == "namespaces":
            monkeypatch.setattr(levels, "_LAUNCHER", weak_launcher(tmp_path, off))
        words = cage.prefix(program)
        monkeypatch.undo()
        words = WITHOUT[off](words, secret) if off in WITHOUT else words
        passed_on = {} if layer.name == "environment" and off else {"KEY": "x"}
        flags = () if off == "permission" else PERMISSION
        done = subprocess.run(
            [*words, cage.node_inside, *flags, SCRIPT],
            capture_output=True, text=True, timeout=60, check=False, env=passed_on, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout))

    yield attempt
    victim.kill()
    victim.wait()
    listener.close()


def drop(words: Words, *unwanted: str) -> Words:
    """Without some flags of bubblewrap, which has them one by one."""
    return [word for word in words if word not in unwanted]


def drop_filter(words: Words, _secret: Path) -> Words:
    at = words.index("--seccomp") if "--seccomp" in words else None
    return words if at is None else [*words[:at], *words[at + 2 :]]


def open_files(words: Words, secret: Path) -> Words:
    """Let the folder of the secret be seen."""
    folder = str(secret.parent)
    if "--remount-ro" in words:
        at = words.index("--remount-ro")
        return [*words[:at], "--ro-bind", folder, folder, *words[at:]]
    at = words.index("scratch") + 3
    return [*words[:at], "read", folder, folder, *words[at:]]


def without_limits(words: Words, _secret: Path) -> Words:
    return [*words[:2], 'exec "$@" 9<"$0"', *words[3:]]


WITHOUT: dict[str, Callable[[Words, Path], Words]] = {
    "files": open_files,
    "network": lambda words, _: drop(words, "--unshare-net"),
    "processes": lambda words, _: drop(words, "--unshare-pid", "--as-pid-1"),
    "filter": drop_filter,
    "environment": lambda words, _: drop(words, "--clearenv"),
    "limits": without_limits,
}


def weak_launcher(folder: Path, off: str) -> Path:
    """Our own launcher without one of its parts."""
    text = levels._LAUNCHER.read_text(encoding="utf-8")
    parts = {
        "network": ("NEW_NETWORK | ", "        if not joined:\n            loopback_up()\n"),
        "processes": ("0x20000000 | ",),
        "filter": ("    _refuse_calls(program)\n",),
    }
    for part in parts[off]:
        assert text.count(part) == 1
        text = text.replace(part, "")
    (folder / "launcher.py").write_text(text, encoding="utf-8")
    return folder / "launcher.py"


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_layer_that_is_not_there_is_made_up_for_or_is_on_the_list(attempt, layer: Layer) -> None:
    assert attempt(layer, "") == layer.refused
    assert attempt(layer, layer.off) == layer.without


def test_the_list_of_what_a_layer_holds_alone_is_in_the_docs() -> None:
    text = DOCS.read_text(encoding="utf-8")
    listed = text.partition("## What each layer holds alone")[2].partition("\n## ")[0]
    for layer in LAYERS:
        assert (f"| {layer.name} |" in listed) == layer.alone, layer.name


GIT = {"dependencies": {"far": "git+ssh://git@127.0.0.1/far.git"}}
REMOTE = {"dependencies": {"far": "http://127.0.0.1:9/far"}}


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Install from a registry of our own, with the rules on package.json switched off."""
    monkeypatch.setattr(manifest, "_problem", lambda _name, _version: "")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))

    def install(asked: dict[str, str], **served: object) -> object:
        with NpmRegistry({"near": ["1.0.0"]}, files={"near": {"index.js": "1" * 1000}}, **served) as registry:  # type: ignore[arg-type]
            monkeypatch.setenv("npm_config_registry", registry.url)
            wanted = manifest.read_manifest(json.dumps({"dependencies": asked}))
            assert isinstance(wanted, Manifest)
            store = PackageStore(tmp_path / "packages", ensure_toolchain())
            try:
                return store.install(wanted)
            finally:
                store.close()

    return install


@pytest.mark.parametrize(
    "version",
    ["git+ssh://git@127.0.0.1/far.git", "http://127.0.0.1:9/far", "file:/etc"],
    ids=["git", "http", "file"],
)
def test_npm_refuses_what_the_rules_on_packages_would_let_through(packages, version: str) -> None:
    found = packages({"far": version})
    assert isinstance(found, Failed)
    assert (found.cause, "not of the registry" in found.reason) == ("package", True)


@pytest.mark.parametrize("more", [GIT, REMOTE], ids=["git", "http"])
def test_packages_of_the_registry_may_not_ask_for_others(packages, more: dict[str, object]) -> None:
    found = packages({"near": "1.0.0"}, manifest=more)
    assert isinstance(found, Failed)
    assert (found.cause, "not of the registry" in found.reason) == ("package", True)


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 2), ("MAX_BYTES", 900)])
def test_packages_that_are_too_large_are_refused(packages, monkeypatch, limit: str, value: int) -> None:
    monkeypatch.setattr(npm, limit, value)
    found = packages({"near": "1.0.0"})
    assert isinstance(found, Failed)
    assert (found.cause, "the packages have more than" in found.reason) == ("limit", True)
