# ruff: noqa: E501 - programs in tables stay on one line
"""The cage by itself: programs without Node's permission model, so that nothing but the cage can stop them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_convex_evals.cage import choice
from pytest_convex_evals.cage.choice import choose_cage, try_level
from pytest_convex_evals.cage.levels import INSIDE, Cage, exit_code, innermost, make_cage
from pytest_convex_evals.cage.program import MB, Limits, Program
from pytest_convex_evals.cage.watch import watch
from pytest_convex_evals.engine.setup import node_executable, toolchain_root
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.grading.process import run_command
from tests.support.cages import ISOLATING, cage_of
from tests.support.process_tree import descendants, lives, wait_until

SCRIPT = f"{INSIDE}/script.mjs"


@pytest.fixture(params=ISOLATING)
def cage(request) -> Cage:
    return cage_of(request.param)


@pytest.fixture
def run(cage, tmp_path):
    """Run JavaScript in the cage: what it prints, and how it ended."""

    def run(code: str, *flags: str, **program: object) -> tuple[str, int]:
        command = command_of(cage, tmp_path, code, *flags, **program)
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"KEY": "x"},
            stdin=subprocess.DEVNULL,
        )
        return done.stdout or done.stderr[-400:], exit_code(done.returncode)

    return run


def command_of(cage: Cage, folder: Path, code: str, *flags: str, **program: object) -> list[str]:
    (folder / "script.mjs").write_text(code, encoding="utf-8")
    wanted = Program(read={SCRIPT: folder / "script.mjs"}, **program)  # type: ignore[arg-type]
    return [*cage.prefix(wanted), cage.node_inside, *flags, SCRIPT]


ATTEMPTS = """
import fs from "node:fs";
import { spawnSync } from "node:child_process";
const tried = (act) => { try { return act() ?? "did"; } catch (error) { return error.code ?? error.message; } };
console.log(JSON.stringify(tried(() => { %s })));
"""


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ('fs.readFileSync("/etc/passwd")', "ENOENT"),
        ('fs.readdirSync("/home")', "ENOENT"),
        ('return fs.readdirSync("/proc").filter((n) => /\\d/.test(n)).length', 0),
        ('return fs.readdirSync("/").sort()', None),
        ('fs.writeFileSync("/x", "")', "EROFS"),
        ('fs.writeFileSync("/cage/x", "")', "EROFS"),
        ('fs.writeFileSync("/cage/script.mjs", "")', "EROFS"),
        ('fs.writeFileSync("/cage/node", "")', "EROFS"),
        ("return Object.keys(process.env).filter((name) => name !== 'TZ' && name !== 'PWD').length", 0),
        ("return process.pid", 1),
        ("return process.ppid", 0),
        ("process.kill(5000, 0)", "ESRCH"),
        ("return spawnSync(process.execPath, ['--version']).error.code", "EPERM"),
        ("process.setuid(0)", "EINVAL"),
        ("return process.memoryUsage().rss > 0", True),
    ],
)
def test_what_a_program_without_any_other_bounds_can_do(run, code, answer):
    printed, ended = run(ATTEMPTS % code)
    assert ended == 0, printed
    if answer is None:
        assert json.loads(printed) == ["cage", "dev", "etc", "lib", "lib64", "proc", "tmp"]
    else:
        assert json.loads(printed) == answer


def test_a_program_that_may_start_processes_starts_them_inside(run):
    code = ATTEMPTS % "return spawnSync(process.execPath, ['-p', 'process.ppid']).stdout.toString()"
    assert json.loads(run(code, processes=True)[0]) == "2\n"


@pytest.mark.parametrize(
    ("limits", "code", "answer"),
    [
        (Limits(scratch=4 * MB), 'for (let n = 0; n < 9; n++) fs.writeFileSync("/tmp/" + n, Buffer.alloc(1e6))', "ENOSPC"),
        (Limits(open_files=64), 'for (let n = 0; n < 99; n++) fs.openSync("/dev/null")', "EMFILE"),
        (Limits(memory=512 * MB), "const kept = []; for (let n = 0; n < 99; n++) kept.push(Buffer.alloc(2e7, 1))", None),
    ],
)  # fmt: skip
def test_limits_are_held_by_the_kernel(run, limits, code, answer):
    printed, ended = run(ATTEMPTS % code, limits=limits)
    if answer is None:
        assert ended != 0 or json.loads(printed) != "did"
    else:
        assert json.loads(printed) == answer


def test_a_program_ends_when_its_processor_time_is_used_up(run):
    assert run("for (;;);", limits=Limits(cpu_s=1), processes=True)[1] == -signal.SIGXCPU
    assert run("for (;;);", limits=Limits(cpu_s=1))[1] == -signal.SIGKILL  # the first process ignores other signals


def test_threads_count_as_memory(run):
    code = (
        'import { Worker } from "node:worker_threads"; let n = 0; '
        "for (; n < 2000; n++) new Worker('setInterval(() => 0, 1e6)', { eval: true }).on('error', () => process.exit(3));"
        "setTimeout(() => process.exit(0), 60000);"
    )
    assert run(code, limits=Limits(memory=512 * MB))[1] != 0


BOMB = """
import {{ spawn }} from "node:child_process";
const one = () => spawn(process.execPath, ["-e", "{CODE}"], {{ detached: true, stdio: "ignore" }}).on("error", () => 0);
for (let n = 0; n < {COUNT}; n++) one();
setInterval(() => 0, 1000);
"""


@pytest.mark.parametrize(
    ("count", "code", "limits", "used_up"),
    [
        (40, "setInterval(() => 0, 1000)", Limits(processes=12), "12 processes"),
        (3, "globalThis.kept = Buffer.alloc(2e8, 1); setInterval(() => 0, 1000)", Limits(memory_of_all=400 * MB), "400 MB of memory"),
    ],
    ids=["processes", "memory"],
)  # fmt: skip
def test_processes_are_counted_from_outside(cage, tmp_path, count, code, limits, used_up):
    command = command_of(cage, tmp_path, BOMB.format(CODE=code, COUNT=count), processes=True, limits=limits)
    others = set(descendants(os.getpid()))
    done = run_command(command, cwd=tmp_path, environment={}, deadline_s=60, watch=watch(limits))
    assert (done.used_up, done.timed_out, done.killed) == (used_up, False, False)
    wait_until(lambda: not set(descendants(os.getpid())) - others, "all of them have ended")


def test_the_signal_that_ended_a_program_is_told(run):
    assert run("process.abort()", processes=True)[1] == -signal.SIGABRT
    assert run("process.abort()")[1] == -signal.SIGSEGV  # the first process ignores the other one


STARTER = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
print("launcher", child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("code", ["for (;;);", "setInterval(() => 0, 1000);"], ids=["busy", "asleep"])
def test_a_program_ends_with_whoever_started_it(cage, tmp_path, code):
    command = command_of(cage, tmp_path, f'import fs from "node:fs"; fs.writeSync(1, "inside\\n"); {code}')
    starter = subprocess.Popen([sys.executable, "-c", STARTER, *command], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    said = sorted(starter.stdout.readline().split() for _ in range(2))
    assert said[0] == ["inside"]
    launcher = int(said[1][1])
    family = [launcher, *descendants(launcher)]
    assert innermost(launcher) in family[1:]
    starter.kill()
    starter.wait()
    wait_until(lambda: not any(lives(pid) for pid in family), "nothing is left running")
    starter.stdout.close()


def test_auto_takes_the_strongest_level_that_holds(monkeypatch):
    broken = {"bwrap"}
    real = try_level

    def without(level, node, folder):
        return ("switched off", None) if level in broken else real(level, node, folder)

    monkeypatch.setattr(choice, "try_level", without)
    node, folder = node_executable(), toolchain_root()
    if real("namespaces", node, folder)[1] is not None:
        assert choose_cage("auto", node, folder).level == "namespaces"
    broken.add("namespaces")
    assert choose_cage("auto", node, folder).level == "node"
    with pytest.raises(SettingsError, match="the sandbox bwrap is not available here: switched off") as caught:
        choose_cage("bwrap", node, folder)
    assert "apt-get install bubblewrap" in str(caught.value)


def test_the_trial_finds_what_a_missing_layer_lets_through():
    """Or it would prove nothing."""
    problem = choice._broken_by(make_cage("node", node_executable(), toolchain_root()))
    assert problem.startswith("a program inside could ")
    for hole in ("read a file outside", "see other processes", "start a process", "reach a port outside"):
        assert hole in problem
