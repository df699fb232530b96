"""`convex-evals backend`: the embedded engine for people, and pushes of a project whenever it changes."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pytest_convex_evals.backends.embedded import Core, EmbeddedBackend, Pushes
from pytest_convex_evals.cli.output import say
from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain
from pytest_convex_evals.errors import EvalsError

_LOOK_S = 0.25
_SLICE_S = 0.05
_NOT_WATCHED = ("_generated", "node_modules")
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

_Seen = dict[str, tuple[int, int]]


class CannotServe(EvalsError):  # noqa: N818 - a state of the machine or of the project
    """The backend cannot be started as asked for."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}\n  what to do: {remedy}")


def run_backend(
    folder: Path | None, port: int | None, site_port: int | None, admin_key: str | None, data: Path | None = None
) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    project = None if folder is None else Project.at(folder)
    check_ports(port, site_port)
    data = None if data is None else data.absolute()
    options = options_of(("--port", port), ("--site-port", site_port), ("--admin-key", admin_key), ("--data", data))
    options.append("--own")
    with Ending.installed() as ending:
        toolchain = ensure_toolchain(lambda line: say(f"set-up: {line}"))
        backend = EmbeddedBackend(Core.start(toolchain, options))
        try:
            ending.raises = False
            _introduce(backend, data)
            _serve(backend, toolchain, project, ending)
        finally:
            backend.close()
    say("the backend has ended")
    return 0


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with functions to push."""

    folder: Path
    functions: Path
    """The convex/ folder, or what convex.json calls so."""
    cli: Path
    """The project's own Convex CLI."""

    @classmethod
    def at(cls, folder: Path) -> Project:
        """Checked before anything is started."""
        folder = folder.absolute()
        functions = folder / _functions_name(folder)
        if not functions.is_dir():
            raise CannotServe(
                f"{folder} has no {functions.relative_to(folder)}/ folder.",
                "give --dir the folder of a Convex project, the one with package.json",
            )
        cli = folder / "node_modules" / "convex" / "bin" / "main.js"
        if not cli.is_file():
            raise CannotServe(
                f"{folder} does not have the package convex installed.", "run `npm install convex` in that folder"
            )
        return cls(folder, functions, cli)

    def seen(self) -> _Seen:
        """Times and sizes of all files that a push could read."""
        found: _Seen = {}
        for name in ("convex.json", "package.json", "tsconfig.json"):
            _note(found, self.folder / name)
        for root, folders, files in os.walk(self.functions):
            folders[:] = [name for name in folders if name not in _NOT_WATCHED]
            for name in files:
                _note(found, Path(root, name))
        return found


def _functions_name(folder: Path) -> str:
    try:
        settings = json.loads((folder / "convex.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "convex"
    name = settings.get("functions") if isinstance(settings, dict) else None
    return name.strip("/") if isinstance(name, str) and name.strip("/") else "convex"


def _note(found: _Seen, path: Path) -> None:
    with suppress(OSError):
        status = path.stat()
        found[str(path)] = (status.st_mtime_ns, status.st_size)


class Ending:
    """Whether somebody wants the end. While `raises`, a signal interrupts; afterwards the loops look."""

    def __init__(self) -> None:
        self.wanted, self.raises = False, True

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Take a signal."""
        first, self.wanted = not self.wanted, True
        if self.raises and first:
            raise KeyboardInterrupt

    @classmethod
    @contextmanager
    def installed(cls) -> Iterator[Ending]:
        """For the time of a command."""
        ending = cls()
        before = {number: signal.signal(number, ending) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with suppress(KeyboardInterrupt):
                yield ending
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def options_of(*pairs: tuple[str, int | str | Path | None]) -> list[str]:
    """Flags of the engine, for what is given."""
    return [f"{name}={value}" for name, value in pairs if value is not None]


def check_ports(port: int | None, site_port: int | None) -> None:
    """The likely reasons why an address cannot be had, in words, before a process is started."""
    if port is not None and port == site_port:
        raise CannotServe(f"--port and --site-port are both {port}.", "choose two ports")
    for flag, number in (("--port", port), ("--site-port", site_port)):
        if number is None:
            continue
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                with socket.socket(family, socket.SOCK_STREAM) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((host, number))
            except OSError as error:
                if error.errno in _ABSENT and family == socket.AF_INET6:
                    continue
                what = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
                raise CannotServe(
                    f"port {number} {what}.", f"choose another one with {flag}, or leave it out for any free port"
                ) from None


def _introduce(backend: EmbeddedBackend, data: Path | None) -> None:
    key = shlex.quote(backend.admin_key)
    say(f"backend     {backend.url}")
    say(f"site        {backend.site_url}  (HTTP actions)")
    say(f"admin key   {backend.admin_key}")
    say()
    say("push a project, once or whenever it changes:")
    say(f"  npx convex dev --url {backend.url} --admin-key {key}")
    say("or, for every command of the Convex CLI, set in the environment or in .env.local of the project:")
    say(f"  CONVEX_SELF_HOSTED_URL={backend.url}")
    say(f"  CONVEX_SELF_HOSTED_ADMIN_KEY={key}")
    kept = "is in memory and goes with it" if data is None else f"stays in {data}"
    say(f"Ctrl-C ends the backend; its data {kept}.")
    say()


def _serve(backend: EmbeddedBackend, toolchain: Toolchain, project: Project | None, ending: Ending) -> None:
    pushed: _Seen | None = None
    before: _Seen | None = None
    if project is not None:
        backend.use_packages(project.folder / "node_modules")
        before = project.seen()
    while not ending.wanted:
        # A folder that still changes is left alone until two looks agree.
        if project is not None and before is not None and before != pushed:
            now = project.seen()
            if now == before:
                pushed = now
                _push(backend, toolchain, project, ending)
            before = now
        wait(_LOOK_S, ending)
        backend.prove_alive()
        if project is not None:
            before = project.seen()


def wait(seconds: float, ending: Ending) -> None:
    """So long, or until somebody wants the end."""
    until = time.monotonic() + seconds
    while not ending.wanted and time.monotonic() < until:
        time.sleep(_SLICE_S)


def _push(backend: EmbeddedBackend, toolchain: Toolchain, project: Project, ending: Ending) -> None:
    """One push by the project's own CLI, which speaks for itself on our output."""
    say(f"push: {project.functions}")
    before = backend.pushes().finished
    where = ["--url", backend.url, "--admin-key", backend.admin_key]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONVEX_")}
    path = f"{toolchain.node.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    child = subprocess.Popen(
        [str(toolchain.node), str(project.cli), "dev", "--once", "--typecheck", "disable", *where],
        cwd=project.folder,
        env=kept | {"PATH": path, "CI": "1"},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while child.poll() is None and not ending.wanted:
            time.sleep(_SLICE_S)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if ending.wanted:
        return
    say(f"push: {_outcome(child.returncode, backend.pushes(), before)}; waiting for changes")


def _outcome(code: int, pushes: Pushes, before: int) -> str:
    """The backend has the last word: some refusals end the CLI with exit code 0."""
    if code != 0:
        return f"failed (exit code {code})"
    if pushes.finished > before:
        return "ended"
    reason = pushes.refusal or "the CLI gave up before the end and says why above"
    return f"refused: {reason}"
