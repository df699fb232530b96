# ruff: noqa: E501 - programs in tables stay on one line
"""Definitions that a push refuses, with the words, while what is deployed goes on."""

import pytest

from .support.core import Core
from .support.project import Bundler, PushError

CONFIG = 'import { defineApp, defineComponent } from "convex/server"; import { v } from "convex/values";'
HTTP = """
    import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server";
    const http = httpRouter();
    http.route({ pathPrefix: "/under/", method: "GET", handler: httpAction(async () => new Response("")) });
    export default http;
"""


def component(app: str, more: dict[str, str] | None = None) -> dict[str, str]:
    return {
        "convex.config.ts": CONFIG
        + f'import c from "./c/convex.config"; const app = defineApp(); {app} export default app;',
        "c/convex.config.ts": CONFIG + 'export default defineComponent("c");',
        **(more or {}),
    }


FUNCTION = (
    'import { query } from "./_generated/server"; export const {name} = query({ args: {}, handler: async () => 1 });'
)
FILES = component("app.use(c);", {"alive.ts": FUNCTION.replace("{name}", "yes")})
PUSHES = {
    "a component that throws at import": (
        component("app.use(c);", {"c/lib.ts": 'throw new Error("broken component"); export {};'}),
        "InvalidModules",
        "Failed to analyze lib.js: Uncaught Error: broken component",
    ),
    "a definition that throws": (
        component("app.use(c);", {"c/convex.config.ts": 'throw new Error("broken definition"); export default 1;'}),
        "InvalidConvexConfig",
        "Uncaught Error: broken definition",
    ),
    "a cycle": (
        component(
            "app.use(c);",
            {
                "c/convex.config.ts": CONFIG
                + 'import d from "../d/convex.config"; const c = defineComponent("c"); c.use(d); export default c;',
                "d/convex.config.ts": CONFIG
                + 'import c from "../c/convex.config"; const d = defineComponent("d"); d.use(c); export default d;',
            },
        ),
        "CyclicImport",
        "Found cyclic definition dependency",
    ),
    "a component that uses itself": (
        component(
            "app.use(c);",
            {
                "c/convex.config.ts": CONFIG
                + 'import me from "./convex.config"; const c = defineComponent("c"); c.use(me); export default c;'
            },
        ),
        "CyclicImport",
        "Found cyclic definition dependency",
    ),
    "a component that uses the app": (
        component(
            "app.use(c);",
            {
                "c/convex.config.ts": CONFIG
                + 'import app from "../convex.config"; const c = defineComponent("c"); c.use(app as any); export default c;'
            },
        ),
        "NoImportAppDuringDefinitionEvaluation",
        "",
    ),
    "an app where a component is expected": (
        component("app.use(c);", {"c/convex.config.ts": CONFIG + "export default defineApp();"}),
        "InvalidDefinition",
        "in component `c` has an invalid value",
    ),
    "two children of one name": (
        component('app.use(c, { name: "x" }); app.use(c, { name: "x" });'),
        "TypecheckError",
        "has multiple child components with the same name",
    ),
    "no name": (component('app.use(c, { name: "" });'), "InvalidConvexConfig", "Component name cannot be empty."),
    "a function and a folder of one name": (
        component(
            "app.use(c);",
            {
                "c/m.ts": FUNCTION.replace("{name}", "x"),
                "c/m/x.ts": FUNCTION.replace("{name}", "y").replace("./_", "../_"),
            },
        ),
        "InvalidExport",
        "conflicts with existing export",
    ),
    "a prefix without a slash": (
        component('app.use(c, { httpPrefix: "c/" });', {"c/http.ts": HTTP}),
        "InvalidConvexConfig",
        'httpPrefix must start with "/"',
    ),
    "a mount on a prefix route": (
        component(
            'app.use(c, { httpPrefix: "/under/" });',
            {"c/http.ts": HTTP, "http.ts": HTTP},
        ),
        "TypecheckError",
        "Overlap with existing prefix route",
    ),
    "a variable that the app does not declare": (
        component(
            "app.use(c, { env: { A: (app as any).env.B } } as any);",
            {"c/convex.config.ts": CONFIG + 'export default defineComponent("c", { env: { A: v.string() } });'},
        ),
        "InvalidConvexConfig",
        'Env var "B" is not declared on this app.',
    ),
    "an optional variable for a required one": (
        {
            **component(""),
            "convex.config.ts": CONFIG
            + 'import c from "./c/convex.config"; const app = defineApp({ env: { A: v.optional(v.string()) } }); app.use(c, { env: { A: app.env.A } }); export default app;',
            "c/convex.config.ts": CONFIG + 'export default defineComponent("c", { env: { A: v.string() } });',
        },
        "TypecheckError",
        "is required, but parent env var",
    ),
    "a wider variable for a narrower one": (
        {
            **component(""),
            "convex.config.ts": CONFIG
            + 'import c from "./c/convex.config"; const app = defineApp({ env: { A: v.string() } }); app.use(c, { env: { A: app.env.A } } as any); export default app;',
            "c/convex.config.ts": CONFIG + 'export default defineComponent("c", { env: { A: v.literal("x") } });',
        },
        "TypecheckError",
        "validator is not satisfied by",
    ),
    "a query at import": (
        component("app.use(c);", {"c/lib.ts": 'Convex.syscall("1.0/queryStream", "{}"); export {};'}),
        "InvalidModules",
        "Can't use database at import time",
    ),
}


@pytest.mark.parametrize(("files", "code", "text"), PUSHES.values(), ids=PUSHES.keys())
def test_a_push_is_refused_and_the_app_goes_on(
    fresh: Core, bundler: Bundler, files: dict[str, str], code: str, text: str
) -> None:
    with pytest.raises(PushError) as refused:
        bundler.push(fresh, files)
    assert (refused.value.status, refused.value.code) == (400, code), refused.value.message
    assert text in refused.value.message
    assert fresh.run("alive:yes") == 1
