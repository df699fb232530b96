"""`convex-evals`: everything around runs that is not running them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_convex_evals import __version__
from pytest_convex_evals.cli.scores_parser import add_score_commands
from pytest_convex_evals.errors import EvalsError

_EPILOG = """\
how to begin:
  convex-evals setup                        install Node packages and bundle the engine (done by itself on first need)
  pytest evals                              grade the reference answers, free of cost
  OPENAI_API_KEY=… pytest evals --models gpt-5 -k 004
  convex-evals show latest                  look at the newest run
  convex-evals status latest                what of it is done, missing, stale or errored
  convex-evals backend --dir PROJECT        a Convex backend that the project is pushed to whenever it changes
  convex-evals scores                       a scores backend for results of models, on this machine
"""
_LAST_PORT = 65_535


def build_parser() -> argparse.ArgumentParser:
    """All commands, each with its own help."""
    parser = argparse.ArgumentParser(
        prog="convex-evals",
        description="Measure how well language models write Convex backends.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"convex-evals {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    setup = commands.add_parser("setup", help="install the Node toolchain, or say that it is there")
    setup.add_argument("--force", action="store_true", help="install it again, for example after damage")
    setup.add_argument("--quiet-when-ready", action="store_true", help="print nothing when there is nothing to do")
    setup.set_defaults(run=_setup)

    listing = commands.add_parser("list", help="the evals below a folder, by category")
    listing.add_argument("folder", nargs="?", default="evals", type=Path, help="default: evals")
    listing.set_defaults(run=_list)

    importing = commands.add_parser(
        "import", help="a suite in the vitest layout: what it has, what would not work here"
    )
    importing.add_argument("suite", type=Path, metavar="SUITE", help="the folder that holds evals/")
    importing.set_defaults(run=_import)

    models = commands.add_parser("models", help="the models of the registry, and whether their key is set")
    models.add_argument("pattern", nargs="?", default="", help="only names, ids and providers that contain this text")
    models.set_defaults(run=_models)

    store = argparse.ArgumentParser(add_help=False)
    store.add_argument("--evals-dir", default=Path(".evals"), type=Path, metavar="DIR", help="default: .evals")
    runs = commands.add_parser("runs", parents=[store], help="the runs in the store, newest first")
    runs.set_defaults(run=_runs)

    show = commands.add_parser("show", parents=[store], help="one run: scores, failures, errors")
    show.add_argument(
        "run_id", nargs="?", default="latest", metavar="RUN", help="the start of a run id; default: latest"
    )
    show.add_argument("-k", dest="pattern", default="", help="only cells whose eval or model contains this text")
    show.set_defaults(run=_show)

    status = commands.add_parser(
        "status", parents=[store], help="what of a run is done, missing, stale or errored, evals by models"
    )
    status.add_argument(
        "run_id", nargs="?", default="latest", metavar="RUN", help="the start of a run id; default: latest"
    )
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=_status)

    cache = commands.add_parser("cache", help="what set-up and grading keep on disk; `cache prune` frees the space")
    cache.set_defaults(run=_cache)
    actions = cache.add_subparsers(title="actions", metavar="ACTION")
    pruning = actions.add_parser("prune", help="remove package sets that are not used, and folders of other versions")
    age = pruning.add_mutually_exclusive_group()
    age.add_argument("--days", type=float, default=30.0, metavar="N", help="not used for so long; default: 30")
    age.add_argument("--all", action="store_const", const=0.0, dest="days", help="all sets; they are installed anew")
    pruning.set_defaults(run=_prune)

    backend = commands.add_parser("backend", help="a Convex backend on this machine, to try a project against")
    backend.add_argument("--dir", type=Path, metavar="PROJECT", help="push this project now and whenever it changes")
    backend.add_argument("--port", type=_port, metavar="N", help="for clients and the CLI; default: any free port")
    backend.add_argument("--site-port", type=_port, metavar="N", help="for HTTP actions; default: any free port")
    backend.add_argument("--admin-key", type=_key, metavar="KEY", help="default: a random one")
    backend.add_argument(
        "--data", type=Path, metavar="DIR", help="keep everything in this folder across restarts; default: in memory"
    )
    backend.set_defaults(run=_backend)

    add_score_commands(commands, store, _port, _key)
    _describe(parser)
    return parser


def _describe(parser: argparse.ArgumentParser) -> None:
    """What the list of commands says about one stands at the head of its own help, too."""
    for group in parser._actions:
        if isinstance(group, argparse._SubParsersAction):
            for listed in group._choices_actions:
                group.choices[listed.dest].description = listed.help
                _describe(group.choices[listed.dest])


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to {_LAST_PORT}")
    return int(text)


def _key(text: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise argparse.ArgumentTypeError("a key is made of letters, digits and signs, without spaces")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] | None = getattr(options, "run", None)
    if run is None:
        parser.print_help()
        return 0
    try:
        return run(options)
    except EvalsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except BrokenPipeError:
        _give_up_stdout()
        return 0
    except OSError as error:
        _give_up_stdout()
        sys.stderr.write(f"{error.filename or 'output'}: {error.strerror or error}\n")
        return 1


def _give_up_stdout() -> None:
    """What is still in the buffer can go nowhere, and must not be tried again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _setup(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.setup import run_setup

    return run_setup(force=options.force, quiet_when_ready=options.quiet_when_ready)


def _list(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.listing import list_evals

    return list_evals(options.folder)


def _import(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.importing import import_suite

    return import_suite(options.suite)


def _models(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.listing import list_models

    return list_models(options.pattern)


def _runs(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.runs import list_runs

    return list_runs(options.evals_dir)


def _show(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.runs import show_run

    return show_run(options.evals_dir, options.run_id, options.pattern)


def _status(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.status import show_status

    return show_status(options.evals_dir, options.run_id, as_json=options.json)


def _cache(_: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.cache import show_cache

    return show_cache()


def _prune(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.cache import prune_cache

    return prune_cache(options.days)


def _backend(options: argparse.Namespace) -> int:
    from pytest_convex_evals.cli.backend import run_backend

    return run_backend(options.dir, options.port, options.site_port, options.admin_key, options.data)


if __name__ == "__main__":
    sys.exit(main())
