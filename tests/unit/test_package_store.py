"""Package sets: installed once, whole or absent, read-only, noticed when damaged, pruned when nobody needs them."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_convex_evals.engine.setup import ensure_toolchain
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.packages import LOCK_FILE, PackageStore, alone_in, prune, stored_sets
from pytest_convex_evals.records import Failed
from tests.support.npm_registry import NpmRegistry

LEFT = Manifest({"left": "^1.0.0"})
FILES = {"left": {"index.js": "module.exports = 1;\n", "deep/er/file.js": "// deep\n"}, "right": {"index.js": "2\n"}}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[NpmRegistry]:
    with NpmRegistry({"left": ["1.0.0"], "right": ["1.0.0"]}, files=FILES) as made:
        monkeypatch.setenv("npm_config_registry", made.url)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "packages"


def store(root: Path) -> PackageStore:
    return PackageStore(root, ensure_toolchain(lambda _: None))


def tried(root: Path, manifest: Manifest = LEFT, lock: str | None = None) -> Path | Failed:
    """By a process that needs the set only now."""
    made = store(root)
    try:
        return made.install(manifest, lock)
    finally:
        made.close()


def installed(root: Path, manifest: Manifest = LEFT, lock: str | None = None) -> Path:
    folder = tried(root, manifest, lock)
    assert isinstance(folder, Path)
    return folder


def content(folder: Path) -> str:
    return (folder / "node_modules" / "left" / "index.js").read_text(encoding="utf-8")


def test_a_set_that_is_there_needs_no_network(registry, root):
    folder = installed(root)
    assert content(folder) == FILES["left"]["index.js"]
    asked = len(registry.asked)
    assert asked > 0
    assert installed(root) == folder
    assert len(registry.asked) == asked
    assert installed(root, Manifest({"right": "1.0.0"})) != folder


def test_nobody_can_write_into_a_set(registry, root):
    folder = installed(root)
    for path in [folder / "node_modules", *(folder / "node_modules").rglob("*")]:
        assert not stat.S_IMODE(path.lstat().st_mode) & 0o222, path


@pytest.mark.parametrize("how", ["changed", "truncated", "removed", "added", "no seal", "seal is nonsense"])
def test_a_damaged_set_is_installed_again(registry, root, how):
    folder = installed(root)
    victim = folder / "node_modules" / "left" / "index.js"
    victim.chmod(0o644)
    victim.parent.chmod(0o755)
    if how == "changed":
        victim.write_text("module.exports = 6;\n", encoding="utf-8")
    elif how == "truncated":
        victim.write_text("", encoding="utf-8")
    elif how == "removed":
        victim.unlink()
    elif how == "added":
        (victim.parent / "evil.js").write_text("// evil", encoding="utf-8")
    elif how == "no seal":
        (folder / "seal.json").unlink()
    else:
        (folder / "seal.json").write_text("{", encoding="utf-8")
    again = installed(root)
    assert again == folder
    assert content(again) == FILES["left"]["index.js"]
    assert not (victim.parent / "evil.js").exists()


def test_what_a_killed_install_left_is_never_used(registry, root):
    folder = installed(root)
    folder.rename(root / f".partial-{folder.name}")
    asked = len(registry.asked)
    assert content(installed(root)) == FILES["left"]["index.js"]
    assert len(registry.asked) > asked
    assert not list(root.glob(".partial-*"))


def test_two_workers_install_a_set_once(registry, root):
    found: list[Path | Failed] = []
    threads = [threading.Thread(target=lambda: found.append(tried(root))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert registry.asked.count("archive/left/1.0.0") == 1


def test_a_set_that_cannot_be_had_leaves_nothing(registry, root):
    problem = tried(root, Manifest({"missing": "1.0.0"}))
    assert isinstance(problem, Failed)
    assert "E404" in problem.reason
    assert stored_sets(root) == []
    assert not list(root.glob(".partial-*"))


def test_the_lock_of_an_attempt_gives_the_same_versions_later(registry, root, monkeypatch):
    lock = (installed(root) / LOCK_FILE).read_text(encoding="utf-8")
    assert "http" not in lock
    with NpmRegistry({"left": ["1.0.0", "1.9.0"]}, files={"left": FILES["left"]}) as newer:
        monkeypatch.setenv("npm_config_registry", newer.url)
        monkeypatch.setenv("npm_config_cache", str(root.parent / "another-cache"))
        fresh = installed(root.parent / "elsewhere")
        locked = installed(root.parent / "elsewhere", lock=lock)
    versions = [
        json.loads((folder / "node_modules" / "left" / "package.json").read_text())["version"]
        for folder in (fresh, locked)
    ]
    assert versions == ["1.9.0", "1.0.0"]


def test_pruning_removes_what_nobody_used_and_what_dead_processes_left(registry, root):
    old, new = installed(root), installed(root, Manifest({"right": "1.0.0"}))
    (root / ".partial-dead").mkdir()
    os.utime(old / "seal.json", (1.0, 1.0))
    with alone_in(root) as alone:
        assert alone
        gone = prune(root, time.time() - 60)
    assert [one.folder for one in gone] == [old]
    assert gone[0].files > 2
    assert [one.folder for one in stored_sets(root)] == [new]
    assert not list(root.glob(".partial-*"))
    assert content(installed(root)) == FILES["left"]["index.js"]


def test_nothing_is_pruned_under_a_session(registry, root):
    session = store(root)
    session.install(LEFT)
    with alone_in(root) as alone:
        assert not alone
    session.close()
    with alone_in(root) as alone:
        assert alone


def test_the_command_shows_and_prunes(registry, tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom pytest_convex_evals.engine import setup\n"
        f"setup.toolchain_root = lambda: Path({str(tmp_path)!r})\n"
        "import pytest_convex_evals.cli.cache as cache\ncache.toolchain_root = setup.toolchain_root\n"
        "from pytest_convex_evals.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    )

    def command(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    folder = installed(tmp_path / "packages")
    (tmp_path / "toolchain-of-old").mkdir()
    status, shown = command("cache")
    assert status == 0
    assert f"cache: {tmp_path}" in shown
    assert folder.name in shown
    assert "left ^1.0.0" in shown
    assert "1 folders of other versions" in shown
    session = store(tmp_path / "packages")
    session.install(LEFT)
    status, said = command("cache", "prune", "--all")
    assert status == 1
    assert "a session uses the cache" in said
    session.close()
    assert command("cache", "prune")[1].splitlines()[-1].startswith("removed 0 package sets")
    assert command("cache", "prune", "--all")[1].splitlines()[-1].startswith("removed 1 package sets")
    assert not folder.exists()
    assert not (tmp_path / "toolchain-of-old").exists()
