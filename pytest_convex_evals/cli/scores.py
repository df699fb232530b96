"""`convex-evals scores`: the scores backend on the embedded engine, for a laptop without an account."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from pytest_convex_evals.backends.embedded import Core, EmbeddedBackend
from pytest_convex_evals.cli.backend import Ending, check_ports, options_of, wait
from pytest_convex_evals.cli.deploy import push
from pytest_convex_evals.cli.output import say
from pytest_convex_evals.cli.scores_project import project_copy
from pytest_convex_evals.engine.setup import ensure_toolchain
from pytest_convex_evals.scores.target import ADMIN_KEYS, TOKEN, URL

_LOOK_S = 0.25


def serve_scores(data: Path, port: int, site_port: int | None, admin_key: str | None) -> int:
    """Push the backend of this version, then serve until Ctrl-C or SIGTERM."""
    site_port = port + 1 if site_port is None else site_port
    check_ports(port, site_port)
    data = data.absolute()
    data.parent.mkdir(parents=True, exist_ok=True)
    asked = (("--port", port), ("--site-port", site_port), ("--admin-key", admin_key), ("--data", data))
    with Ending.installed() as ending:
        toolchain = ensure_toolchain(lambda line: say(f"set-up: {line}"))
        backend = EmbeddedBackend(Core.start(toolchain, options_of(*asked)))
        try:
            say("push: the scores backend of this version")
            with tempfile.TemporaryDirectory(prefix="convex-evals-scores-") as folder:
                project = project_copy(Path(folder), toolchain)
                push(project, toolchain, backend.url, backend.admin_key, production=False, quiet=True)
            ending.raises = False
            _introduce(backend, data)
            while not ending.wanted:
                wait(_LOOK_S, ending)
                backend.prove_alive()
        finally:
            backend.close()
    say("the scores backend has ended")
    return 0


def _introduce(backend: EmbeddedBackend, data: Path) -> None:
    key = shlex.quote(backend.admin_key)
    say(f"scores      {backend.url}")
    say(f"leaderboard {backend.site_url}/leaderboard  (JSON)")
    say(f"data        {data}")
    say()
    say("make a token, once:")
    say(f"  {ADMIN_KEYS[1]}={key} convex-evals token create laptop --url {backend.url}")
    say(f"then, with what it prints ({URL} and {TOKEN}) in the environment or in .env:")
    say("  pytest evals --models gpt-5")
    say("Ctrl-C ends the backend; its data stays.")
