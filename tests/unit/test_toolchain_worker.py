"""The toolchain worker: whatever the Node process does, the answer is a result or trouble of ours."""

import os
import signal
import threading

import pytest

from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain, node_executable
from pytest_convex_evals.errors import SetupError, Trouble
from pytest_convex_evals.grading import toolchain as module
from pytest_convex_evals.grading.toolchain import ToolchainWorker
from pytest_convex_evals.grading.tools import Tools

FILES = {"files": {"package.json": '{"dependencies": {"convex": "1.48.0"}}'}}
REPAIR = "run `convex-evals setup --force`"
READY = 'console.log(JSON.stringify({ready: {}}));\nimport { createInterface } from "node:readline";\n'
EACH = "for await (const line of createInterface({input: process.stdin})) { const {id, op} = JSON.parse(line); %s }\n"


@pytest.fixture
def fake(tmp_path):
    """A worker whose script a test writes."""
    started = []

    def fake(script: str) -> ToolchainWorker:
        (tmp_path / "toolchain.mjs").write_text(script, encoding="utf-8")
        worker = ToolchainWorker(lambda: Toolchain(node_executable(), tmp_path, tmp_path))
        started.append(worker)
        return worker

    yield fake
    for worker in started:
        worker.close()


@pytest.fixture
def real():
    worker = ToolchainWorker(ensure_toolchain)
    yield worker
    worker.close()


def trouble(worker: ToolchainWorker, params=FILES, deadline_s: float = 30.0) -> Trouble:
    with pytest.raises(Trouble) as caught:
        worker.request("sources", params, deadline_s=deadline_s)
    assert caught.value.cause == "toolchain"
    return caught.value


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_real_worker_reads_sources_and_serves_again(real):
    for _ in range(2):
        assert isinstance(real.request("sources", FILES, deadline_s=60), dict)


def test_a_request_that_the_worker_refuses_is_trouble_and_it_lives_on(real):
    with pytest.raises(Trouble) as caught:
        real.request("no_such_method", {}, deadline_s=60)
    assert caught.value.reason.startswith("no_such_method failed in the toolchain worker: ")
    pid = real._child.process.pid
    assert real.request("sources", FILES, deadline_s=60)
    assert real._child.process.pid == pid


def test_a_worker_that_was_killed_is_started_again(real):
    real.request("sources", FILES, deadline_s=60)
    first = real._child.process.pid
    os.kill(first, signal.SIGKILL)
    real._child.process.wait()
    assert real.request("sources", FILES, deadline_s=60)
    assert real._child.process.pid != first


def test_close_ends_the_process_and_may_be_called_twice(real):
    real.request("sources", FILES, deadline_s=60)
    pid = real._child.process.pid
    real.close()
    real.close()
    assert not is_running(pid)


def test_the_folder_of_a_worker_goes_with_it(real):
    real.request("sources", FILES, deadline_s=60)
    first = real._folder
    os.kill(real._child.process.pid, signal.SIGKILL)
    real._child.process.wait()
    real.request("sources", FILES, deadline_s=60)
    second = real._folder
    assert (first.exists(), second.is_dir()) == (False, True)
    real.close()
    assert not second.exists()


def test_a_worker_that_dies_in_the_middle_is_replaced_and_asked_again(fake, tmp_path):
    dies_once = """
        import { existsSync, writeFileSync } from "node:fs";
        const first = !existsSync("seen"); writeFileSync("seen", "");
        if (first) process.kill(process.pid, "SIGKILL");
        console.log(JSON.stringify({id, ok: {fine: true}}));
    """
    imports, body = dies_once.strip().split("\n", 1)
    worker = fake(READY + imports.strip() + "\n" + EACH % body)
    assert worker.request("sources", FILES, deadline_s=30) == {"fine": True}
    assert (tmp_path / "seen").exists()


def test_a_worker_that_dies_twice_is_trouble(fake, tmp_path):
    dies = """
        import { appendFileSync } from "node:fs";
        appendFileSync("seen", ".");
        console.error("out of memory");
        process.kill(process.pid, "SIGKILL");
    """
    imports, body = dies.strip().split("\n", 1)
    problem = trouble(fake(READY + imports.strip() + "\n" + EACH % body))
    assert problem.reason == "the toolchain worker died while it worked on sources (exit code -9): out of memory"
    assert problem.remedy == REPAIR
    assert (tmp_path / "seen").read_text() == ".."


def test_a_worker_that_has_grown_too_large_ends_after_its_answer(real, monkeypatch):
    monkeypatch.setattr(module, "_MEMORY_MB", 1)
    seen = set()
    for _ in range(3):
        assert isinstance(real.request("sources", FILES, deadline_s=60), dict)
        seen.add(real._child.process.pid)
    real._child.process.wait(60)
    assert real._child.process.returncode == 0
    assert len(seen) == 3


def test_threads_that_ask_at_once_share_one_worker():
    starts, answers = [], []

    def toolchain() -> Toolchain:
        starts.append(1)
        return ensure_toolchain()

    worker = ToolchainWorker(toolchain)
    threads = [
        threading.Thread(target=lambda: answers.append(worker.request("sources", FILES, deadline_s=60)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    worker.close()
    assert len(answers) == 4
    assert starts == [1]


def test_a_silent_worker_is_killed_at_the_deadline(fake):
    worker = fake(READY + EACH % "")
    problem = trouble(worker, deadline_s=0.3)
    assert problem.reason == "the toolchain worker was silent for 0 s while it worked on sources"
    assert worker._child is None


def test_a_worker_that_does_not_even_read_is_killed_at_the_deadline(fake):
    worker = fake(READY + "setInterval(() => {}, 1000);\n")
    problem = trouble(worker, {"files": {"a.ts": "x" * 5_000_000}}, deadline_s=0.5)
    assert problem.reason == "the toolchain worker died while it was asked for sources (exit code -9)"


def test_a_worker_that_closes_its_output_is_dead(fake):
    worker = fake(READY + EACH % 'process.stdout.destroy(); (await import("node:fs")).closeSync(1);')
    assert "died while it worked on sources" in trouble(worker).reason


NONSENSE = {
    "no JSON": "console.log('hello');",
    "no object": "console.log('3');",
    "another id": "console.log(JSON.stringify({id: id + 7, ok: {}}));",
    "no id": "console.log(JSON.stringify({ok: {}}));",
    "neither ok nor error": "console.log(JSON.stringify({id}));",
    "both": "console.log(JSON.stringify({id, ok: {}, error: {}}));",
    "bytes": "process.stdout.write(Buffer.from([255, 254, 10]));",
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_trouble_and_the_worker_is_given_up(body, fake):
    worker = fake(READY + EACH % body)
    problem = trouble(worker)
    assert (problem.reason, problem.remedy) == ("the toolchain worker answered nonsense to sources", REPAIR)
    assert worker._child is None


def test_a_late_answer_to_an_earlier_question_is_skipped(fake):
    worker = fake(READY + EACH % "for (const n of [id - 1, id]) console.log(JSON.stringify({id: n, ok: n}));")
    assert [worker.request("sources", {}, deadline_s=30) for _ in range(2)] == [1, 2]


def test_a_worker_that_never_gets_ready_is_trouble(fake, monkeypatch):
    monkeypatch.setattr(module, "_START_S", 0.5)
    worker = fake("setInterval(() => {}, 1000);\n")
    assert trouble(worker).reason.endswith("while it started")
    assert worker._child is None


def test_a_worker_that_greets_differently_is_trouble(fake):
    assert trouble(fake("console.log('{}'); setInterval(() => {}, 1000);")).reason == (
        "the toolchain worker did not report ready"
    )


def test_the_worker_sees_nothing_of_the_environment(fake, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    worker = fake(READY + EACH % "console.log(JSON.stringify({id, ok: Object.keys(process.env)}));")
    assert set(worker.request("sources", {}, deadline_s=30)) <= {"PWD"}  # which the shell sets that sets the limits


def test_text_of_any_kind_arrives(fake):
    worker = fake(READY + EACH % "console.log(JSON.stringify({id, ok: JSON.parse(line).params.text}));")
    text = "ä\u2028\0\ud800\n```"
    assert worker.request("sources", {"text": text}, deadline_s=30) == text


def test_a_missing_bundle_is_trouble(tmp_path):
    worker = ToolchainWorker(lambda: Toolchain(node_executable(), tmp_path, tmp_path / "dist"))
    problem = trouble(worker)
    assert problem.reason.startswith("the toolchain worker died while it started (exit code 1): ")
    assert "Cannot find module" in problem.reason
    assert problem.remedy == REPAIR


def test_a_missing_npm_package_is_trouble(tmp_path):
    """A copy of the toolchain, without TypeScript."""
    whole = ensure_toolchain()
    packages = tmp_path / "node_modules"
    packages.mkdir()
    for entry in (whole.folder / "node_modules").iterdir():
        if entry.name != "typescript":
            (packages / entry.name).symlink_to(entry)
    dist = tmp_path / "dist"
    dist.mkdir()
    whole_script = whole.script("toolchain").read_bytes()
    (dist / "toolchain.mjs").write_bytes(whole_script)
    problem = trouble(ToolchainWorker(lambda: Toolchain(whole.node, tmp_path, dist)))
    assert "Cannot find package 'typescript'" in problem.reason
    assert problem.remedy == REPAIR


def test_a_missing_node_is_trouble(tmp_path):
    worker = ToolchainWorker(lambda: Toolchain(tmp_path / "node", tmp_path, tmp_path))
    assert trouble(worker).reason.startswith("the toolchain worker died while it started (exit code 127): ")


def test_a_set_up_that_fails_is_trouble_with_its_remedy(tmp_path):
    def fails():
        raise SetupError("no packages", command="npm ci", output="ECONNREFUSED", remedy="check the network")

    problem = trouble(Tools(fails, tmp_path).worker)
    assert (
        problem.reason
        == "set-up failed: no packages\n  command:    npm ci\n  | ECONNREFUSED\n  what to do: check the network"
    )
    assert problem.remedy == "check the network"


def test_a_root_that_cannot_be_written_is_trouble(tmp_path):
    (tmp_path / "file").write_text("")
    worker = Tools(lambda: ensure_toolchain(root=tmp_path / "file" / "below"), tmp_path).worker
    problem = trouble(worker)
    assert problem.reason.startswith("the set-up of the Node toolchain failed: ")
    assert "Not a directory" in problem.reason
