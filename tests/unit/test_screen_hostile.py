"""The screen against components that mean ill, and the child against everybody."""

# ruff: noqa: F811 - fixtures are imported
import os
import re
import signal

import pytest

from pytest_convex_evals.engine.setup import Toolchain
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading import screen_child
from pytest_convex_evals.grading.http_fixture import HttpFixture
from pytest_convex_evals.grading.screen_child import ScreenChild
from tests.support.screens import effect, project, show, stage, tools  # noqa: F401

# Hostile components


@pytest.mark.parametrize(
    "source",
    [
        "while (true);\nexport default () => null;",
        "export default () => { for (;;); };",
        effect("const spin = (): void => void Promise.resolve().then(spin); spin();"),
    ],
)
def test_a_page_without_end_is_ended_and_the_next_one_is_shown(show, monkeypatch, source):
    monkeypatch.setattr(screen_child, "ANSWER_CPU_S", 1.0)
    with pytest.raises(AssertionError, match="the page does not respond: busy for more than 1 s"):
        show(source).text()
    assert show("export default () => <p>fine</p>;").text() == "fine"


def test_a_page_that_sleeps_is_ended(show, monkeypatch):
    monkeypatch.setattr(screen_child, "ANSWER_S", 1.0)
    with pytest.raises(AssertionError, match="the page does not respond: silent for more than 1 s"):
        show("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);\nexport default () => null;")


@pytest.mark.parametrize(
    "code",
    [
        "const all: unknown[] = []; for (;;) all.push(new Array(100_000).fill(all.length));",
        "const all: unknown[] = []; for (;;) all.push(new Uint8Array(100_000_000).fill(1));",
    ],
)
def test_a_page_that_eats_memory_fails_the_check(show, code):
    with pytest.raises(AssertionError, match=r"took its process down|failed to render: RangeError"):
        show(f"{code}\nexport default () => null;")
    rows = "Array.from({ length: 5_000 }, (_, n) => <p key={n}>{n}</p>)"
    assert show(f"export default () => <>{{{rows}}}</>;").text().endswith("4999")


def test_a_page_that_is_too_big_fails_the_check(show):
    screen = show(effect("for (let n = 0; n < 25_000; n++) document.body.append(document.createElement('hr'));"))
    with pytest.raises(AssertionError, match="the page has more than 20000 nodes"):
        screen.text()


ESCAPES = [
    "process.exit(0)",
    "(globalThis as any).require('fs')",
    "await (0, eval)(\"import('node:fs')\")",
    "(window.Node as any).constructor('return process')().exit(0)",
    "(window.fetch as any).constructor.constructor('return process')().exit(0)",
    "(Headers as any).constructor('return process')().exit(0)",
    "(document as any).createElement('p').constructor.constructor('return process')().env",
    "new Worker('data:text/javascript,1')",
]


@pytest.mark.parametrize("code", ESCAPES)
def test_a_page_has_nothing_of_node(show, code):
    source = effect(
        f"void (async () => {code})().then((got) => setResult(`got ${{got}}`), (e) => setResult(`no: ${{e.name}}`));"
    )
    screen = show(source)
    screen.wait_for_text(re.compile(r"no: (ReferenceError|EvalError|TypeError|Error)"))


def test_a_page_reaches_nothing_but_the_deployment(show):
    fixture = HttpFixture().start()
    try:
        fixture.answer("/", body="reached")
        host = f"{fixture.url}/"
        screen = show(effect(f'fetch("{host}").then((r) => setResult("reached"), () => setResult("refused"));'))
        screen.wait_for_text("refused")
        socket = host.replace("http", "ws")
        screen = show(effect(f'const s = new WebSocket("{socket}"); s.onerror = s.onopen = (e) => setResult(e.type);'))
        screen.wait_for_text("error")
        screen = show(
            effect(
                f'const x = new XMLHttpRequest(); x.open("GET", "{host}");'
                ' x.onloadend = () => setResult("status " + x.status); x.send();'
            )
        )
        screen.wait_for_text("status 0")
        assert fixture.requests == []
    finally:
        fixture.close()


# The child


FORGED = """
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
const say = (line) => writeSync(1, line + "\\n");
say('{"ready": {}}');
for await (const line of createInterface({ input: process.stdin })) {
  const { id, op } = JSON.parse(line);
  const forged = ['{"id": 1, "ok": "forged"}', '{"id": "x"}', "[]", "null", "no json", "[".repeat(100000)];
  forged.forEach(say);
  if (op === "text") say(JSON.stringify({ id, ok: "true" }));
  if (op === "exit") process.exit(7);
  while (op === "flood") try { writeSync(1, "x".repeat(1 << 20)); } catch {}
}
"""


@pytest.fixture
def child(tools, tmp_path):
    """A child whose script a test writes."""
    started = []

    def child(script: str) -> ScreenChild:
        (tmp_path / "node_modules").mkdir(exist_ok=True)
        (tmp_path / "screen.mjs").write_text(script, encoding="utf-8")
        made = ScreenChild(Toolchain(tools.toolchain().node, tmp_path, tmp_path), tools.cage())
        started.append(made)
        return made

    yield child
    for made in started:
        made.close()


def test_lines_that_answer_nothing_are_dropped(child):
    made = child(FORGED)
    assert made.request("text", {}) == "true"


def test_a_child_that_does_not_start_is_trouble(child):
    with pytest.raises(Trouble, match=r"the screen did not start.*\n(.*\n)*.*no such module") as caught:
        child('throw new Error("no such module");').start()
    assert caught.value.cause == "toolchain"


def test_an_answer_without_end_is_cut_off(child):
    made = child(FORGED)
    made.used = True
    with pytest.raises(AssertionError, match="its answer has no end"):
        made.request("flood", {})
    assert not made.alive


@pytest.mark.parametrize(("used", "kind"), [(False, Trouble), (True, AssertionError)])
def test_whoever_was_loaded_is_to_blame_for_an_exit(child, used, kind):
    made = child(FORGED)
    made.used = used
    with pytest.raises(kind, match="exit code 7"):
        made.request("exit", {})


@pytest.mark.parametrize("noticed", [False, True], ids=["just now", "a while ago"])
def test_a_child_that_others_kill_is_trouble(show, stage, noticed):
    screen = show("export default () => <p>fine</p>;")
    process = stage.child().process
    os.killpg(process.pid, signal.SIGKILL)
    if noticed:
        process.wait(30)
    with pytest.raises(Trouble) as caught:
        screen.text()
    assert caught.value.cause == "cage"
    assert show("export default () => <p>fine again</p>;").text() == "fine again"


def test_nothing_is_left_running(show, stage):
    show("export default () => <p>fine</p>;")
    pid = stage.child().process.pid
    stage.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


def test_a_child_ends_when_nobody_is_there_to_ask(stage):
    child = stage.child()
    child.start()
    child.process.stdin.close()
    assert child.process.wait(30) == 0
