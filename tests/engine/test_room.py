"""What a deployment of somebody else's code may keep: everything is in memory."""

from collections.abc import Iterator

import pytest

from .support.core import Core, FunctionError
from .support.programs import PROGRAMS
from .support.project import Bundler

ROOM = 160_000_000
INSERT = 'for (let n = 0; n < 7; n++) await ctx.db.insert("kept", { text: "x".repeat(1_000_000) });'
STORE = 'await ctx.storage.store(new Blob(["x".repeat(8_000_000)]));'


@pytest.fixture(scope="module")
def app(bundler: Bundler) -> Iterator[Core]:
    running = Core(f"--room-bytes={ROOM}")
    bundler.push(running, {"p.ts": PROGRAMS})
    yield running
    running.close()


@pytest.mark.parametrize(("path", "code"), [("p:m", INSERT), ("p:a", STORE)], ids=["documents", "files"])
def test_more_than_there_is_room_for_is_refused(app: Core, path: str, code: str) -> None:
    app.control("reset")
    with pytest.raises(FunctionError, match="more than this backend has room for"):  # noqa: PT012 - some time
        for _ in range(60):
            app.run(path, {"code": code})
    assert app.control("stats")["memory"] < 4 * ROOM
    app.control("reset")
    app.run(path, {"code": code})


def test_long_logs_of_many_calls_are_kept_in_part(app: Core) -> None:
    app.control("reset")
    for _ in range(12):
        app.run("p:q", {"code": "for (let n = 0; n < 255; n++) console.log('x'.repeat(32000))"})
    kept = sum(len(line) for entry in app.control("logs") for line in entry["logLines"])
    assert 8_000_000 < kept < 70_000_000
