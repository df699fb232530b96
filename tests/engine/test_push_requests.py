# ruff: noqa: E501 - bodies in tables stay on one line
"""The requests of a push: what is malformed is told why, and only the latest push is activated."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import Bundler
from .support.pushes import MODULES, PUSH

MISLEADING = {"toString": "x", "valueOf": 1}


def one(path: Any, source: Any = "export {};", **more: Any) -> dict[str, Any]:
    module = {"path": path, "source": source, "environment": "isolate"}
    return {"appDefinition": {"changedModules": [module], "udfServerVersion": "1.48.0", **more}, "componentDefinitions": []}  # fmt: skip


MALFORMED = {
    "nothing": ({}, "InvalidConfig", "Missing appDefinition"),
    "another type": ({"appDefinition": 5}, "InvalidConfig", "Missing appDefinition"),
    "a list": ({"appDefinition": []}, "InvalidConfig", "Missing appDefinition"),
    "modules that are no list": ({"appDefinition": {"changedModules": {}}}, "InvalidConfig", "Invalid list of modules in the push"),
    "module without source": ({"appDefinition": {"changedModules": [{"path": "a.js"}]}}, "InvalidConfig", "Invalid module in the push"),
    "module that is null": ({"appDefinition": {"changedModules": [None]}}, "InvalidConfig", "Invalid module in the push"),
    "path with a toString": (one(MISLEADING), "InvalidConfig", "Invalid module in the push"),
    "schema that is a text": ({"appDefinition": {"schema": "x"}}, "InvalidConfig", "Invalid module in the push"),
    "dependency with a toString": ({"appDefinition": {"dependencies": [MISLEADING]}}, "InvalidConfig", "Invalid dependency in the push"),
    "hash that is null": ({"appDefinition": {"unchangedModuleHashes": [None]}}, "InvalidConfig", "Invalid module hash in the push"),
    "hash of a path with a toString": ({"appDefinition": {"unchangedModuleHashes": [{"path": MISLEADING}]}}, "InvalidConfig", "Invalid module hash in the push"),
    "component that is null": ({"appDefinition": {}, "componentDefinitions": [None]}, "InvalidConfig", "Invalid component definition in the push"),
    "component without a path": ({"appDefinition": {}, "componentDefinitions": [{}]}, "InvalidConfig", "Invalid component definition in the push"),
    "component whose path has a toString": ({"appDefinition": {}, "componentDefinitions": [{"definitionPath": MISLEADING}]}, "InvalidConfig", "Invalid component definition in the push"),
    "package with a toString": ({**one("a.js"), "nodeDependencies": [{"name": MISLEADING}]}, "InvalidConfig", "Invalid node dependency in the push"),
    "packages that are not installed": ({**one("a.js"), "nodeDependencies": [{"name": "left-pad", "version": "1"}]}, "InvalidExternalModules", PUSH + "Loading the pushed modules encountered the following error:\nNo packages are installed for left-pad"),
    "old Node": ({**one("a.js"), "nodeVersion": "18"}, "InvalidConfig", "Node 18 is no longer supported"),
    "unknown Node": ({**one("a.js"), "nodeVersion": "x"}, "InvalidConfig", "Invalid node version: x"),
    "Node with a toString": ({**one("a.js"), "nodeVersion": MISLEADING}, "InvalidConfig", "Invalid node version: {"),
    "folder above": (one("../a.js"), "InvalidConfig", "../a.js is not a valid path to a Convex module."),
    "module of the system": (one("_system/a.js"), "InvalidConfig", "_system/a.js is not a valid path to a Convex module."),
    "no JavaScript": (one("a.js", "export const = ;"), "InvalidModules", MODULES + "Failed to analyze a.js: Uncaught SyntaxError"),
    "import outside the bundle": (one("a.js", 'import "left-pad"; export {};'), "InvalidModules", "Couldn't find JavaScript module"),
    "unknown dependency": ({"appDefinition": {"dependencies": ["x"]}}, "TypecheckError", PUSH + "Component definition not found: x"),
    "too many modules": ({"appDefinition": {"changedModules": [{"path": f"m{n}.js", "source": ""} for n in range(4097)]}}, "InvalidModules", PUSH + "Too many function files"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "code", "text"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_push_is_told_why(core: Core, body: dict[str, Any], code: str, text: str) -> None:
    answer = core.post("/api/deploy2/start_push", {"adminKey": core.key, **body})
    assert (answer.status, answer.json()["code"]) == (400, code)
    assert text in answer.json()["message"]


@pytest.mark.parametrize("echo", [None, 5, {}, {"schemaChange": None}, {"schemaChange": {"schemaIds": None}}])
def test_an_echo_that_names_no_push_activates_nothing(core: Core, bundler: Bundler, echo: Any) -> None:
    core.post("/api/deploy2/start_push", {"adminKey": core.key, **bundler.body({"p.ts": PROGRAMS})})
    finished = core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": echo})
    assert (finished.status, finished.json()["code"]) == (400, "RaceDetected")


def test_older_clients_send_all_modules_of_the_app_as_functions(core: Core, bundler: Bundler) -> None:
    body = bundler.body({"p.ts": PROGRAMS})
    body["appDefinition"]["functions"] = body["appDefinition"].pop("changedModules")
    del body["appDefinition"]["unchangedModuleHashes"]
    started = core.post("/api/deploy2/start_push", {"adminKey": core.key, **body}).json()
    assert core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": started}).status == 200
    assert core.run("p:q", {"code": "return 31"}) == 31


def test_unchanged_modules_are_kept_and_checked(core: Core, bundler: Bundler) -> None:
    files = {"p.ts": PROGRAMS}
    bundler.push(core, files)
    hashes = core.post("/api/get_config_hashes", {"adminKey": core.key}).json()["moduleHashes"]
    body = bundler.body(files)
    kept = [{"path": item["path"], "environment": item["environment"], "sha256": item["hash"]} for item in hashes]
    body["appDefinition"].update(changedModules=[], unchangedModuleHashes=kept)
    started = core.post("/api/deploy2/start_push", {"adminKey": core.key, **body}).json()
    assert core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": started}).status == 200
    assert core.run("p:q", {"code": "return 5"}) == 5
    for change, code in (
        ({"sha256": "0" * 64}, "ExistingModuleHashConflict"),
        ({"environment": "node"}, "ExistingModuleEnvConflict"),
        ({"path": "other.js"}, "MissingExistingModule"),
    ):
        body["appDefinition"]["unchangedModuleHashes"] = [{**kept[0], **change}]
        refused = core.post("/api/deploy2/start_push", {"adminKey": core.key, **body})
        assert (refused.status, refused.json()["code"]) == (409, code)


def test_a_push_that_was_overtaken_is_not_activated(core: Core, bundler: Bundler) -> None:
    bundler.push(core, {"p.ts": PROGRAMS})
    body = {"adminKey": core.key, **bundler.body({})}
    first = core.post("/api/deploy2/start_push", body).json()
    core.post("/api/deploy2/start_push", body)
    waited = core.post("/api/deploy2/wait_for_schema", {"adminKey": core.key, "schemaChange": first["schemaChange"]})
    assert waited.json() == {"type": "raceDetected"}
    finished = core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": first})
    assert (finished.status, finished.json()["code"]) == (400, "RaceDetected")
    assert core.run("p:q", {"code": "return 1"}) == 1


def test_a_push_fails_when_variables_changed_meanwhile(core: Core, bundler: Bundler) -> None:
    started = core.post("/api/deploy2/start_push", {"adminKey": core.key, **bundler.body({"p.ts": PROGRAMS})}).json()
    core.control("env.set", variables={"CHANGED": "1"})
    finished = core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": started})
    core.control("env.set", variables={"CHANGED": None})
    assert (finished.status, finished.json()["code"]) == (400, "RaceDetected")
    assert "Environment variables have changed during push" in finished.json()["message"]


def test_pushes_at_the_same_time_do_not_see_each_others_modules(core: Core, bundler: Bundler) -> None:
    names = [f"m{n}" for n in range(8)]
    bodies = [
        bundler.body({f"{name}.ts": PROGRAMS.replace("export const q", f"export const {name}")}) for name in names
    ]
    with ThreadPoolExecutor(len(bodies)) as pool:
        start = partial(core.post, "/api/deploy2/start_push")
        answers = list(pool.map(start, [{"adminKey": core.key, **body} for body in bodies]))
    found = [answer.json()["analysis"][""]["functions"] for answer in answers]
    assert [list(modules) for modules in found] == [[f"{name}.js"] for name in names]
    assert [
        any(fn["name"] == name for fn in modules[f"{name}.js"]["functions"])
        for name, modules in zip(names, found, strict=True)
    ] == [True] * 8


def test_how_pushes_ended_is_known(bundler: Bundler) -> None:
    core = Core()
    try:
        assert core.control("pushes") == {"finished": 0, "refusal": None}
        bundler.push(core, {"p.ts": PROGRAMS})
        assert core.control("pushes") == {"finished": 1, "refusal": None}
        core.post("/api/deploy2/start_push", {"adminKey": core.key, "appDefinition": 5})
        assert core.control("pushes") == {"finished": 1, "refusal": "InvalidConfig: Missing appDefinition"}
        bundler.push(core, {"p.ts": PROGRAMS})
        assert core.control("pushes") == {"finished": 2, "refusal": None}
    finally:
        core.close()
