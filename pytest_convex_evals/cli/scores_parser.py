"""The commands around the scores backend: their flags."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_convex_evals.scores.target import ADMIN_KEYS, CONFIG_FILE, DEVELOPMENT, FORCE, PRODUCTION, URL

SCOPES = ("report", "maintain", "mint")
SCORES_PORT = 3290
_PLACES = f"address, {PRODUCTION} or {DEVELOPMENT} (see {CONFIG_FILE}); default: "
_URL_HELP = f"{_PLACES}{URL}"


def add_score_commands(
    commands: Any, store: argparse.ArgumentParser, port: Callable[[str], int], key: Callable[[str], str]
) -> None:
    """`upload`, `token`, `mint`, `deploy` and `scores`."""
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--url", default="", help=_URL_HELP)
    forced = argparse.ArgumentParser(add_help=False)
    forced.add_argument(FORCE, dest="to_production", action="store_true", help="write to production from here")

    upload = commands.add_parser(
        "upload", parents=[store, where, forced], help="deliver results of a run that are kept here"
    )
    upload.add_argument(
        "run_id", nargs="?", default="latest", metavar="RUN", help="the start of a run id; default: latest"
    )
    upload.add_argument("--again", action="store_true", help="send everything, delivered or not; nothing counts twice")
    upload.set_defaults(run=_upload)

    token = commands.add_parser("token", help=f"tokens of the scores backend; needs {' or '.join(ADMIN_KEYS)}")
    actions = token.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", parents=[where], help="make a token and print it, once")
    create.add_argument("name", help="who or what uses it; a name is used once")
    create.add_argument("--scope", action="append", choices=SCOPES, help="what it may do; repeatable; default: report")
    create.add_argument("--days", type=float, metavar="N", help="how long it works; default: until it is revoked")
    create.set_defaults(run=_token_create)
    listing = actions.add_parser("list", parents=[where], help="names, scopes, expiry and last use")
    listing.set_defaults(run=_token_list)
    revoke = actions.add_parser("revoke", parents=[where], help="a token that works no longer")
    revoke.add_argument("name")
    revoke.set_defaults(run=_token_revoke)

    mint = commands.add_parser(
        "mint", parents=[where, forced], help="name the suite as it is now as a benchmark version"
    )
    mint.add_argument(
        "name", nargs="?", default="", help="name of the version; without one, only what changed is shown"
    )
    mint.add_argument("--suite", type=Path, default=Path("evals"), metavar="DIR", help="default: evals")
    mint.add_argument("--notes", default="", help="what is new, for people")
    mint.add_argument("--yes", action="store_true", help="do not ask")
    mint.set_defaults(run=_mint)

    deploy = commands.add_parser("deploy", help="push the scores backend to a deployment")
    deploy.add_argument("--url", default="", help=f"{_PLACES}{DEVELOPMENT}, without {CONFIG_FILE} {URL}")
    deploy.add_argument(f"--{PRODUCTION}", dest="production", action="store_true", help="default: development")
    deploy.set_defaults(run=_deploy)

    scores = commands.add_parser("scores", help="the scores backend on this machine, without an account")
    scores.add_argument(
        "--data", type=Path, default=Path(".evals/scores"), metavar="DIR", help="default: .evals/scores"
    )
    scores.add_argument("--port", type=port, default=SCORES_PORT, metavar="N", help=f"default: {SCORES_PORT}")
    scores.add_argument(
        "--site-port", type=port, metavar="N", help="for the leaderboard as JSON; default: the next one"
    )
    scores.add_argument("--admin-key", type=key, metavar="KEY", help="default: the one of the data folder")
    scores.set_defaults(run=_scores)


def _upload(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.upload import upload_run

    return upload_run(
        options.evals_dir, options.run_id, options.url, again=options.again, to_production=options.to_production
    )


def _token_create(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.tokens import create_token

    return create_token(options.name, options.scope or ["report"], options.days, options.url)


def _token_list(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.tokens import list_tokens

    return list_tokens(options.url)


def _token_revoke(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.tokens import revoke_token

    return revoke_token(options.name, options.url)


def _mint(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.mint import mint

    return mint(
        options.suite, options.name, options.notes, options.url, yes=options.yes, to_production=options.to_production
    )


def _deploy(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.deploy import deploy

    return deploy(options.url, production=options.production)


def _scores(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.scores import serve_scores

    return serve_scores(options.data, options.port, options.site_port, options.admin_key)
