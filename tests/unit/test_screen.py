"""The screen: components of a submission are bundled, shown and used, and follow the deployment."""

# ruff: noqa: F811 - fixtures are imported
import os
import re
import subprocess

import pytest

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.polling import poll_until
from pytest_convex_evals.grading.screen import Stage
from tests.support.screens import NOBODY, effect, project, show, stage, tools  # noqa: F401

# Bundling


def test_a_component_finds_its_own_names_its_styles_and_its_environment(show, project):
    (project / "tsconfig.json").write_text('{ "compilerOptions": { "paths": { "@/*": ["./src/*"] }, } // mine')
    (project / "src" / "label.ts").write_text('export const label = "made here";\n', encoding="utf-8")
    screen = show(
        'import { label } from "@/label";\nimport "./nowhere.css";\nimport logo from "/logo.svg";\n'
        "export default () => <p>{label} {typeof logo} {import.meta.env.VITE_CONVEX_URL} {process.env.NODE_ENV}</p>;\n"
    )
    (project / "tsconfig.json").unlink()
    assert screen.text() == f"made here object {NOBODY.url} development"


def test_named_exports_and_props(show):
    source = "export function Hello({ name }: { name: string }) { return <h1>Hello {name}</h1>; }\n"
    assert show(source, export="Hello", props={"name": "Ada"}).text() == "Hello Ada"


def test_there_is_one_react_however_it_is_imported(show, stage):
    screen = show(
        'import { useState } from "react";\nimport * as all from "react";\nimport React from "react";\n'
        'import * as found from "../node_modules/react/index.js";\nimport { flushSync } from "react-dom";\n'
        "export default () => <p>{String([all.useState, React.useState, (found as any).useState].every((f) => f === "
        "useState) && typeof flushSync === 'function' && (all as any).useNothing === undefined)}</p>;\n"
    )
    assert screen.text() == "true"
    assert [len(programs) for programs in stage._bundles.values()] == [2]


def test_submissions_with_the_same_packages_share_the_program_of_react(show, stage):
    shared, owns = [], []
    for word in ("one", "two"):
        assert show(f"export default () => <p>{word}</p>;").text() == word
        ((first, second),) = stage._bundles.values()
        shared.append(first.name)
        owns.append(second.source)
    assert shared[0] == shared[1]
    assert [word in own for own in owns for word in ('"one"', '"two"')] == [True, False, False, True]
    assert "react_stack_bottom_frame" not in owns[0]


def test_a_react_that_is_a_module_is_bundled_where_it_is_imported(tools, tmp_path):
    folder = tmp_path / "project"
    packages = {
        "react": "export const createElement = () => null; export const version = 'mine'; export default {};",
        "react-dom": "export const flushSync = (run) => run();",
        "convex": "export const ConvexProvider = 1; export class ConvexReactClient {}",
    }
    for name, source in packages.items():
        home = folder / "node_modules" / name
        home.mkdir(parents=True)
        for file in ("index.js", "client.js", "react.js", "jsx-runtime.js"):
            (home / file).write_text(source + "export const createRoot = 1; export const jsx = 1;", encoding="utf-8")
        (home / "package.json").write_text('{"type": "module", "main": "index.js"}', encoding="utf-8")
    (folder / "App.tsx").write_text('import { version } from "react"; export default () => version;', encoding="utf-8")
    stage = Stage(tools.toolchain(), tools.worker, folder, tmp_path, NOBODY, tools.cage())
    (program,) = stage.bundle("App.tsx", "default")
    assert "mine" in program.source
    (folder / "App.tsx").write_text('import { missing } from "react"; export default () => missing;', encoding="utf-8")
    stage._bundles.clear()
    with pytest.raises(AssertionError, match=r'No matching export in ".*react/index.js" for import "missing"'):
        stage.bundle("App.tsx", "default")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ('import x from "left-pad";\nexport default () => <p>{x}</p>;', "src/Case.tsx:1:15 Could not resolve"),
        ("export default () => <p>", "src/Case.tsx:1:25 Unexpected end of file"),
        ('import secret from "../../secret.json";\nexport default () => <p>{secret.x}</p>;', "outside the project"),
        ('import "/dev/zero";\nexport default () => null;', "outside the project"),
        ("export const Other = () => null;", 'src/Case.tsx has no component as its export "default"'),
        ("export default { not: 'a component' };", 'src/Case.tsx has no component as its export "default"'),
    ],
)
def test_what_cannot_be_shown_fails_the_check_with_the_reason(show, project, source, complaint):
    (project.parent / "secret.json").write_text('{"x": "key"}')
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        show(source)


# Looking, waiting, acting


def test_a_form_is_used_by_its_labels(stage):
    screen = stage.screen()
    screen.render("src/Form.tsx", online=False)
    assert screen.text().splitlines()[0] == "Orders"
    assert not screen.has_text("secret")
    assert screen.find(role="button", name="Order").disabled
    screen.click("I agree", role="checkbox")
    assert screen.find(role="checkbox").checked
    screen.type("Name", "Ada {x} [y]")
    assert screen.find(role="textbox", name="Name").value == "Ada {x} [y]"
    screen.type("Name", "Bo", clear=True)
    screen.select("Size", "Big")
    screen.click("Order")
    screen.type("Name", "b")
    screen.press("Enter")
    screen.wait_for_texts(["Bo wants a big one", "Bob wants a big one"], role="listitem")
    screen.click(re.compile("AGAIN$", re.IGNORECASE))
    screen.wait_until_gone("wants a")
    assert screen.errors == []
    with pytest.raises(AssertionError, match='there is no button called "Missing"'):
        screen.click("Missing", seconds=0.1)


HIDDEN = """
export default ({ sheet }: { sheet: string }) => (
  <main>
    <style>{sheet}</style>
    <ul><li>seen</li><li hidden>no</li><li style={{ display: "none" }}>no</li><li style={{ color: "red" }}>seen</li>
    </ul>
    <div aria-hidden="true"><ul><li>no</li></ul></div><div aria-hidden="false"><ul><li>seen</li></ul></div>
    <div style={{ visibility: "hidden" }}><ul><li>no</li><li style={{ visibility: "visible" }}>seen</li></ul></div>
    <dialog><ul><li>no</li></ul></dialog><dialog open><ul><li>seen</li></ul></dialog>
    <template><ul><li>no</li></ul></template><section><ol><li>seen</li></ol></section>
    <article hidden><li>no</li></article>
    <div popover="auto"><li>seen</li></div><x-own><li>seen</li></x-own>
    <details><summary>more</summary><li>seen</li></details>
    <input type="hidden" role="listitem" /><input type="HIDDEN" role="listitem" /><input role="listitem" />
    <div ref={(at) => { if (at) at.innerHTML = "<nobr><li>seen</li></nobr>"; }} />
    <svg><g role="listitem">seen</g></svg><table><tbody hidden><tr role="listitem"><td>no</td></tr></tbody></table>
  </main>
);
"""


def test_hidden_parts_are_hidden_with_and_without_style_sheets(show):
    """A document without sheets is looked at in a quicker way."""
    unstyled = HIDDEN.replace("    <style>{sheet}</style>\n", "")
    plain = show(unstyled).texts(role="listitem")
    assert plain == show(HIDDEN, props={"sheet": ".x { color: red }"}).texts(role="listitem")
    assert (plain.count("seen"), plain.count("no")) == (10, 0)
    assert show(HIDDEN, props={"sheet": "main { display: none }"}).texts(role="listitem") == []


def test_a_wait_in_vain_shows_what_can_be_read(show):
    screen = show("export default () => <ul><li>one</li><li>two <b>halves</b></li></ul>;")
    with pytest.raises(AssertionError) as caught:
        screen.wait_for_text("three", seconds=0.1)
    assert str(caught.value) == "'three' did not appear (waited 0.1 s); the screen shows:\none\ntwo halves"


def test_timers_are_held_and_let_go(show):
    screen = show(effect('setTimeout(() => setResult("later"), 2000); setTimeout(() => setResult("soon"), 10);'))
    screen.hold_timers()
    screen.wait_for_text("soon")
    with pytest.raises(AssertionError, match="'later' did not appear"):
        screen.wait_for_text("later", seconds=2.5)
    screen.hold_timers(False)
    screen.wait_for_text("later")


def test_every_screen_begins_without_what_the_last_one_left(show, stage):
    source = "let count = 0;\nexport default () => <p>{++count} {(window as any).left ??= 'new'}</p>;"
    assert show(source).text() == show(source).text() == "1 new"
    with pytest.raises(AssertionError, match="nothing has been rendered yet"):
        stage.screen().text()


# What goes wrong in a component


@pytest.mark.parametrize(
    ("source", "thrown"),
    [
        ('throw new Error("at import");\nexport default () => null;', "Error: at import"),
        ('export default () => { throw new TypeError("in render"); };', "TypeError: in render"),
        ("export default () => { throw { toString() { throw 1; } }; };", "something that cannot be put in words"),
        (
            'import { useState } from "react";\n'
            "export default () => { const [n, set] = useState(0); set(n + 1); return n; };",
            "Error: Too many re-renders",
        ),
    ],
)
def test_a_component_that_throws_fails_to_render(show, source, thrown):
    with pytest.raises(AssertionError, match=f"src/Case.tsx failed to render: {re.escape(thrown)}"):
        show(source)


def test_a_component_that_throws_later_leaves_an_empty_screen(show):
    screen = show(effect('setTimeout(() => setResult(() => { throw new Error("in state"); }), 10);'))
    screen.wait_until_gone("nothing yet")
    with pytest.raises(AssertionError, match=r"the screen is empty\nthrown: Error: in state"):
        screen.wait_for_text("nothing yet", seconds=0.1)


def test_what_comes_loose_later_and_what_is_printed_are_data(show):
    screen = show(
        effect(
            'setTimeout(() => { throw new Error("in a timer"); }, 0); Promise.reject(new Error("in a promise"));'
            ' console.warn("look", 7); setTimeout(() => setResult("done"), 20);'
        )
    )
    screen.wait_for_text("done")
    assert screen.errors == ["Error: in a promise", "Error: in a timer"]
    assert "warn: look 7" in screen.printed


# With the deployment


@pytest.fixture(scope="module")
def backend(tools, project):
    """The cases, pushed to an engine by their own Convex CLI."""
    made = tools.backend()
    try:
        node = tools.toolchain().node
        cli = [str(node), "node_modules/convex/bin/main.js", "dev", "--once", "--typecheck", "disable"]
        environment = {"PATH": f"{node.parent}{os.pathsep}{os.defpath}", "HOME": str(project.parent), "CI": "1"}
        subprocess.run(
            [*cli, "--url", made.url, "--admin-key", made.admin_key],
            cwd=project,
            env=environment,
            capture_output=True,
            check=True,
            timeout=120,
        )
        yield made
    finally:
        made.close()


@pytest.fixture
def live(tools, project, tmp_path, backend):
    backend.reset()
    made = Stage(tools.toolchain(), tools.worker, project, tmp_path, backend, tools.cage())
    yield made
    made.close()


@pytest.mark.parametrize("export", ["default", "WithItsOwnProvider"])
def test_a_component_follows_the_deployment(live, backend, export):
    screen = live.screen()
    screen.render("src/Notes.tsx", export=export)
    screen.wait_for_text("0 notes")
    screen.hold_timers()
    backend.insert("notes", [{"text": "first"}, {"text": "second"}])
    screen.wait_for_texts(["first", "second"], role="listitem")
    screen.type("Note", "third")
    screen.click("Add")
    screen.wait_for_texts(["first", "second", "third"], role="listitem")
    assert [note["text"] for note in backend.documents("notes")] == ["first", "second", "third"]
    backend.clear("notes")
    screen.wait_for_text("0 notes")
    assert screen.errors == []


def test_a_mutation_that_fails_is_an_error_of_the_page(live):
    screen = live.screen()
    screen.render("src/Notes.tsx")
    screen.click("Add")
    screen.wait_for_text("0 notes")
    poll_until(lambda: screen.errors)
    assert "a note needs a text" in screen.errors[0]


def test_offline_the_page_is_still_loading(live, backend):
    backend.insert("notes", [{"text": "first"}])
    screen = live.screen()
    screen.render("src/Notes.tsx", online=False)
    with pytest.raises(AssertionError, match="the screen shows:\nLoading"):
        screen.wait_for_text("1 notes", seconds=0.5)
    screen.go_online()
    screen.wait_for_text("1 notes")


def test_a_deployment_that_died_is_trouble_not_a_failure(tools, project, tmp_path):
    dead = tools.backend()
    stage = Stage(tools.toolchain(), tools.worker, project, tmp_path, dead, tools.cage())
    try:
        screen = stage.screen()
        screen.render("src/Notes.tsx")
        dead.close()
        with pytest.raises(Trouble) as caught:
            screen.wait_for_text("0 notes", seconds=0.1)
        assert caught.value.cause == "backend"
    finally:
        stage.close()
        dead.close()
