# ruff: noqa: E501 - programs stay on one line
"""Data folders in bad shape, in use or on a full disk; resets, the clock and keys across restarts."""

import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .support.core import request
from .support.durable import DurableCore, wait_for
from .support.programs import PROGRAMS
from .support.project import Bundler
from .support.toolchain import toolchain

FILES = {
    "p.ts": PROGRAMS,
    "crons.ts": """
        import { cronJobs } from "convex/server";
        import { internal } from "./_generated/api";
        const crons = cronJobs();
        crons.daily("nightly", { hourUTC: 3, minuteUTC: 0 }, internal.p.innerM, { code: "await ctx.db.insert('runs', { at: Date.now() })" });
        export default crons;
    """,
}
WRITES = 6
MARK = b"\xff\x63\x76\xfe"
HEADER = 16
DAY = 86_400_000


@dataclass(frozen=True)
class Sample:
    """A folder with a few writes, one frame each, and where its frames begin."""

    folder: Path

    @property
    def log(self) -> Path:
        return max(self.folder.glob("log-*"))

    @property
    def frames(self) -> list[int]:
        found, at, data = [], 0, self.log.read_bytes()
        while at < len(data):
            assert data[at : at + 4] == MARK
            found.append(at)
            at += HEADER + int.from_bytes(data[at + 4 : at + 8], "little")
        return found

    def flip(self, at: int) -> None:
        data = bytearray(self.log.read_bytes())
        data[at] ^= 0x10
        self.log.write_bytes(data)

    def cut(self, size: int) -> None:
        self.log.write_bytes(self.log.read_bytes()[:size])


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "data"
    core = DurableCore(folder)
    for number in range(WRITES):
        core.control("insert", table="rows", documents=[{"number": number}, {"number": number + 0.5}])
    core.kill()
    return folder


@pytest.fixture
def sample(original: Path, tmp_path: Path) -> Sample:
    return Sample(Path(shutil.copytree(original, tmp_path / "data")))


def numbers(core: DurableCore) -> list[float]:
    return [row["number"] for row in core.control("list", table="rows")["documents"]]


def first(writes: int) -> list[float]:
    return [number + half for number in range(writes) for half in (0, 0.5)]


def refusal(folder: Path) -> str:
    """What a core says that does not start on this folder."""
    command = [toolchain().node, toolchain().core, f"--data={folder}"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "\n  what to do: " in ended.stderr
    return ended.stderr


TORN: dict[str, tuple[Callable[[Sample], None], int]] = {
    "one byte is missing": (lambda s: s.cut(s.log.stat().st_size - 1), WRITES - 1),
    "only half a header is there": (lambda s: s.cut(s.frames[-1] + 7), WRITES - 1),
    "only a header is there": (lambda s: s.cut(s.frames[-1] + HEADER), WRITES - 1),
    "the last body is wrong": (lambda s: s.flip(s.log.stat().st_size - 5), WRITES - 1),
    "the last length is wrong": (lambda s: s.flip(s.frames[-1] + 6), WRITES - 1),
    "zeros follow": (lambda s: s.log.write_bytes(s.log.read_bytes() + bytes(5000)), WRITES),
    "part of a mark follows": (lambda s: s.log.write_bytes(s.log.read_bytes() + MARK[:2]), WRITES),
}


@pytest.mark.parametrize("name", TORN)
def test_an_unfinished_write_at_the_end_is_cut_off(
    sample: Sample, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    spoil, whole = TORN[name]
    spoil(sample)
    core = DurableCore(sample.folder)
    assert numbers(core) == first(whole)
    assert "are an unfinished write and were cut off" in capfd.readouterr().err
    core.control("insert", table="rows", documents=[{"number": 100}])
    core = core.again()
    assert numbers(core) == [*first(whole), 100]
    assert "cut off" not in capfd.readouterr().err
    core.close()


DAMAGED: dict[str, tuple[Callable[[Sample], None], Callable[[Sample], int]]] = {
    "a body": (lambda s: s.flip(s.frames[-3] + HEADER + 5), lambda s: s.frames[-3]),
    "a length that now reaches past the end": (lambda s: s.flip(s.frames[-3] + 7), lambda s: s.frames[-3]),
    "a length that is now too small": (lambda s: s.flip(s.frames[-3] + 4), lambda s: s.frames[-3]),
    "a mark": (lambda s: s.flip(s.frames[-3]), lambda s: s.frames[-3]),
    "the frame before the last": (lambda s: s.flip(s.frames[-1] - 1), lambda s: s.frames[-2]),
    "the first byte": (lambda s: s.flip(0), lambda s: 0),
    "the end of the snapshot": (lambda s: s.cut(s.frames[1]), lambda s: s.frames[1]),
    "everything": (lambda s: s.cut(0), lambda s: 0),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_elsewhere_is_refused_with_its_place(sample: Sample, name: str) -> None:
    spoil, place = DAMAGED[name]
    at = place(sample)
    spoil(sample)
    before = sample.log.read_bytes()
    assert f"{sample.log} cannot be read at byte {at}," in refusal(sample.folder)
    assert sample.log.read_bytes() == before


def test_other_formats_are_refused(sample: Sample) -> None:
    (sample.folder / "format").write_text("2\n")
    said = refusal(sample.folder)
    assert 'has format "2"; this version reads format 1.' in said
    assert "use the newer version of pytest-convex-evals that wrote it" in said
    (sample.folder / "format").write_text("?")
    assert 'has format "?"' in refusal(sample.folder)


def test_a_folder_without_its_log_is_refused(sample: Sample) -> None:
    sample.log.unlink()
    assert "is damaged: its log is missing." in refusal(sample.folder)


def test_foreign_folders_and_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    assert "is not empty and no data folder of this engine" in refusal(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    assert "cannot be used: ENOTDIR" in refusal(tmp_path / "letter.txt" / "data")


def test_what_an_interrupted_compaction_leaves_does_not_count(sample: Sample) -> None:
    whole = sample.log.read_bytes()
    (sample.folder / "log-000002.tmp").write_bytes(whole[: len(whole) // 2])
    core = DurableCore(sample.folder)
    assert numbers(core) == first(WRITES)
    core.kill()
    # Renamed, but the old log was not removed yet.
    sample.log.rename(sample.folder / "log-000002")
    (sample.folder / "log-000001").write_bytes(whole[: sample.frames[-1]])
    core = DurableCore(sample.folder)
    assert numbers(core) == first(WRITES)
    assert sorted(path.name for path in sample.folder.iterdir()) == ["files", "format", "lock", "log-000002"]
    core.close()


def test_a_folder_whose_making_was_interrupted_is_made_anew(sample: Sample) -> None:
    sample.log.rename(sample.folder / "log-000001.tmp")
    core = DurableCore(sample.folder)
    assert numbers(core) == []
    core.close()


def test_a_second_process_is_refused(sample: Sample) -> None:
    core = DurableCore(sample.folder)
    assert f"The data folder {sample.folder} is in use by another process." in refusal(sample.folder)
    link = sample.folder.parent / "link"
    link.symlink_to(sample.folder)
    assert "is in use by another process." in refusal(link)
    core.control("insert", table="rows", documents=[{"number": 100}])
    core = core.again()
    assert numbers(core) == [*first(WRITES), 100]
    core.close()


def test_contents_that_no_document_has_are_removed(sample: Sample) -> None:
    (sample.folder / "files" / "0e0b9a4e-9c2c-4f5c-8a56-000000000000").write_bytes(b"of an upload that was cut short")
    DurableCore(sample.folder).close()
    assert list((sample.folder / "files").iterdir()) == []


# ── a full disk ──────────────────────────────────────────────────────────────────────────────────────────────────────


def limit(core: DurableCore, size: int) -> None:
    """Files of the core may not grow beyond this, as on a full disk."""
    resource.prlimit(core.lines.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.fixture
def core(bundler: Bundler, tmp_path: Path) -> Iterator[DurableCore]:
    running = DurableCore(tmp_path / "data")
    bundler.push(running, FILES)
    yield running
    running.lines.kill()


def add(core: DurableCore, text: str) -> object:
    body = {"path": "p:m", "args": {"code": f"await ctx.db.insert('rows', {{ number: '{text}' }})"}, "format": "json"}
    return core.post("/api/mutation", body)


def test_a_full_disk_refuses_writes_and_loses_nothing(
    bundler: Bundler, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    core = DurableCore(tmp_path / "data")
    bundler.push(core, FILES)
    assert add(core, "before").status == 200
    upload = core.run("p:m", {"code": "return await ctx.storage.generateUploadUrl()"})
    core.run(
        "p:m",
        {
            "code": "await ctx.scheduler.runAfter(300, t.internal.p.innerM, { code: \"await ctx.db.insert('rows', { number: 'job' })\" })"
        },
    )
    size = core.log.stat().st_size
    for room in (0, 10):
        limit(core, size + room)
        refused = add(core, "during")
        assert (refused.status, refused.json()["code"]) == (503, "DataNotWritten")
        assert f"{core.log} could not be written (EFBIG)" in refused.json()["message"]
        assert core.log.stat().st_size == size
    assert request(upload, bytes(2 * size)).status == 503
    wait_for(lambda: list((core.folder / "files").iterdir()) == [])
    assert (
        core.post("/api/update_environment_variables", {"changes": [{"name": "A", "value": "1"}]}, core.key).status
        == 503
    )
    assert core.control("env.list") == {}
    wait_for(lambda: core.control("scheduled")[0]["scheduledTime"] < core.control("clock.now")["now"] - 200)
    assert core.control("scheduled")[0]["state"] == {"kind": "pending"}
    assert numbers(core) == ["before"]
    assert "could not be written (EFBIG). Make room on its disk" in capfd.readouterr().err
    limit(core, resource.RLIM_INFINITY)
    assert add(core, "after").status == 200
    wait_for(lambda: numbers(core) == ["before", "after", "job"] or numbers(core) == ["before", "job", "after"])
    found = numbers(core)
    again = core.again()
    assert numbers(again) == found
    assert again.control("scheduled")[0]["state"] == {"kind": "success"}
    again.close()


def test_a_compaction_that_fails_leaves_the_log_as_it_is(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    core = DurableCore(tmp_path / "data", "--compact-bytes=1000")
    obstacle = core.folder / "log-000002.tmp"
    obstacle.mkdir()
    said, count = "", 0
    while "so the log is not compacted yet" not in said:
        core.control("insert", table="rows", documents=[{"number": count}])
        said, count = said + capfd.readouterr().err, count + 1
    assert f"{core.folder / 'log-000002'} could not be written (EISDIR)" in said
    obstacle.rmdir()
    assert core.log.name == "log-000001"
    while core.log.name == "log-000001":
        core.control("insert", table="rows", documents=[{"number": count}])
        count += 1
    core = core.again()
    assert numbers(core) == list(range(count))
    core.close()


# ── the whole deployment ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_virtual_clock_goes_on_where_it_was(core: DurableCore) -> None:
    core.control("clock.start", time=1_000 * DAY)
    core.control("clock.advance", ms=2.5 * DAY)
    core.run(
        "p:m",
        {
            "code": "await ctx.scheduler.runAfter(86400000, t.internal.p.innerM, { code: \"await ctx.db.insert('rows', { number: Date.now() })\" })"
        },
    )
    runs = core.control("cronRuns")
    core = core.again()
    assert core.control("clock.now") == {"now": 1_002.5 * DAY, "virtual": True}
    assert core.control("cronRuns") == runs
    core.control("clock.advance", ms=3 * DAY)
    assert numbers(core) == [1_003.5 * DAY]
    documents = core.control("list", table="runs")["documents"]
    assert [document["at"] // DAY for document in documents] == [1000, 1001, 1002, 1003, 1004, 1005]
    assert len(core.control("cronRuns")) == 6
    core.close()


def test_moving_the_clock_waits_for_what_is_being_written(core: DurableCore, bundler: Bundler) -> None:
    """Crons whose runs are written after their function has ended are not overtaken by the clock."""
    crons = """
        import { cronJobs } from "convex/server";
        import { internal } from "./_generated/api";
        const crons = cronJobs();
        crons.daily("failing", { hourUTC: 3, minuteUTC: 0 }, internal.p.innerM, { code: "throw new Error('no')" });
        crons.daily("acting", { hourUTC: 4, minuteUTC: 0 }, internal.jobs.act, {});
        export default crons;
    """
    jobs = 'import { internalAction } from "./_generated/server"; export const act = internalAction({ args: {}, handler: async () => 1 });'
    bundler.push(core, {**FILES, "crons.ts": crons, "jobs.ts": jobs})
    core.control("clock.start", time=1_000 * DAY)
    core.control("clock.advance", ms=10 * DAY)
    core = core.again()
    days = {
        name: [run["scheduledFor"] // DAY for run in core.control("cronRuns") if run["name"] == name]
        for name in ("failing", "acting")
    }
    assert days == {"failing": list(range(1000, 1010)), "acting": list(range(1000, 1010))}
    core.close()


def test_a_clock_that_was_made_real_again_stays_real(core: DurableCore) -> None:
    core.control("clock.start", time=1_000 * DAY)
    core.control("reset")
    core = core.again()
    assert core.control("clock.now")["virtual"] is False
    core.close()


def test_creation_times_and_timestamps_only_grow(core: DurableCore) -> None:
    """Also when the clock was far ahead before."""
    core.control("clock.start", time=4_102_444_800_000)
    core.run("p:m", {"code": "await ctx.db.insert('rows', { number: 1 })"})
    core = core.again()
    core.run("p:m", {"code": "await ctx.db.insert('rows', { number: 2 })"})
    earlier, later = (row["_creationTime"] for row in core.control("list", table="rows")["documents"])
    assert 4_102_444_800_000 <= earlier < later
    core.close()


def test_a_reset_drops_data_and_a_wipe_everything_for_good(core: DurableCore) -> None:
    core.control("env.set", variables={"A": "1"})
    request(
        core.run(
            "p:m", {"code": "await ctx.db.insert('rows', { number: 1 }); return await ctx.storage.generateUploadUrl()"}
        ),
        b"content",
    )
    core.control("reset")
    assert list((core.folder / "files").iterdir()) == []
    core = core.again()
    assert numbers(core) == []
    assert core.control("list", table="_storage")["documents"] == []
    assert core.control("env.list") == {"A": "1"}
    core.run("p:m", {"code": "await ctx.db.insert('rows', { number: 2 })"})
    core = core.again()
    assert numbers(core) == [2]
    assert [job["name"] for job in core.control("crons")] == ["nightly"]
    core.control("wipe")
    key = core.key
    core = core.again()
    assert (core.control("components"), core.control("env.list"), core.control("crons"), core.key) == ([], {}, [], key)
    core.close()


def test_a_later_push_replaces_an_earlier_one(core: DurableCore, bundler: Bundler) -> None:
    core.run("p:m", {"code": "await ctx.db.insert('rows', { number: 1 })"})
    schema = 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ rows: defineTable({ number: v.number() }).index("by_number", ["number"]) });'
    bundler.push(
        core,
        {"p.ts": PROGRAMS + "export const added = query({ args: {}, handler: () => 'added' });", "schema.ts": schema},
    )
    core = core.again()
    assert core.run("p:added") == "added"
    assert core.control("crons") == []
    assert (
        core.run(
            "p:q",
            {
                "code": "return (await ctx.db.query('rows').withIndex('by_number', (q) => q.eq('number', 1)).collect()).length"
            },
        )
        == 1
    )
    bundler.push(core, FILES)
    assert [job["name"] for job in core.control("crons")] == ["nightly"]
    core.close()


def test_an_admin_key_that_is_given_is_used_from_then_on(tmp_path: Path) -> None:
    first_key = DurableCore(tmp_path / "data")
    first_key.kill()
    given = DurableCore(tmp_path / "data", "--admin-key=mine|secret")
    assert (given.key != first_key.key, given.key) == (True, "mine|secret")
    given.kill()
    kept = DurableCore(tmp_path / "data")
    assert kept.key == "mine|secret"
    kept.close()
