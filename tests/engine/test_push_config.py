# ruff: noqa: E501 - programs in tables stay on one line
"""What a push refuses in auth.config.ts and convex.config.ts: the smallest program, the code and the message."""

import pytest

from .support.core import Core
from .support.project import Bundler
from .support.pushes import CONFIG, PUSH, SERVER, Files, Refusals, auth, check_refusal, component, raw_config, refusal

APP = {"definitionType": {"type": "app"}, "childComponents": [], "httpMounts": {}}
USE = "const app = defineApp(); app.use(c);"
BROKEN = PUSH + "The default export of `convex.config.ts` in your app has an invalid value"
MISLEADING = {"toString": "c", "valueOf": 1}
CHILD_HTTP = 'import { httpRouter } from "convex/server"; export default httpRouter();'


def bound(outer: str, inner: str, binding: str = "app.env.A") -> Files:
    """An app whose variable A is handed to the variable B of its component."""
    return component(f"const app = defineApp({{ env: {{ A: {outer} }} }}); app.use(c, {{ env: {{ B: {binding} }} }} as any);", f", {{ env: {{ B: {inner} }} }}")  # fmt: skip


def uses(path: str, *others: str) -> Files:
    """A component that uses others."""
    names = [(f"x{n}", other) for n, other in enumerate(others)]
    imports = "".join(f'import {name} from "../{other}/convex.config";' for name, other in names)
    calls = "".join(f"c.use({name});" for name, _ in names)
    return {
        f"{path}/convex.config.ts": f'{CONFIG}{imports} const c = defineComponent("{path}"); {calls} export default c;'
    }


REFUSED: Refusals = {
    "auth without default": ({"auth.config.ts": "export const x = 1;"}, "AuthConfigMissingExportError", "auth config file is missing default export"),
    "auth of another shape": ({"auth.config.ts": "export default { providers: [{ domain: 5 }] };"}, "AuthConfigNotMatchingSchemaError", "auth config file must include a list of provider credentials:"),
    "auth with an unset variable": ({"auth.config.ts": "export default { providers: [{ domain: process.env.NOT_SET, applicationID: 'a' }] };"}, "AuthConfigMissingEnvironmentVariable", "Environment variable NOT_SET is used in auth config file but"),
    "clock in auth": ({"auth.config.ts": "export default { providers: [{ domain: String(Date.now()), applicationID: 'a' }] };"}, "InvalidAuthConfig", "Date unsupported when evaluating auth config file"),
    "config with another export": ({"convex.config.ts": SERVER.split(" import { api")[0] + "export const x = 1; export default defineApp();"}, "InvalidDefinition", "The default export of `convex.config.ts` in your app has an invalid value"),
    "config that throws": ({"convex.config.ts": 'throw new Error("no"); export default 1;'}, "InvalidConvexConfig", "Uncaught Error: no"),
    "child twice": (
        {"convex.config.ts": 'import { defineApp } from "convex/server"; import c from "./c/convex.config"; const app = defineApp(); app.use(c); app.use(c); export default app;', "c/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("c");'},
        "TypecheckError",
        "Component has multiple child components with the same name: c",
    ),
    "component name": (
        {"convex.config.ts": 'import { defineApp } from "convex/server"; import c from "./c/convex.config"; const app = defineApp(); app.use(c); export default app;', "c/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("a-b");'},
        "InvalidDefinition",
        'Invalid component name "a-b" in component `c`: it must be an identifier',
    ),
    "variable that is not set": ({"convex.config.ts": 'import { defineApp } from "convex/server"; import { v } from "convex/values"; export default defineApp({ env: { NEEDED: v.string() } });'}, "MissingEnvironmentVariables", "Required environment variables are not set: NEEDED."),
    "auth that is null": ({"auth.config.ts": "export default null;"}, "AuthConfigMissingExportError", "auth config file is missing default export"),
    "auth with a misspelt field": (auth('{ domain: "https://a.com", applicationId: "a" }'), "AuthConfigNotMatchingSchemaError", "list of provider credentials: providers[0].applicationID must be a string"),
    "auth of an unknown type": (auth('{ type: "saml", domain: "https://a.com", applicationID: "a" }'), "AuthConfigNotMatchingSchemaError", "list of provider credentials: providers[0].type is unknown"),
    "custom tokens with a domain": (auth('{ type: "customJwt", domain: "a", issuer: "https://a.com", jwks: "https://a.com/j", algorithm: "RS256" }'), "AuthConfigNotMatchingSchemaError", "list of provider credentials: providers[0] of type customJwt must not have a domain"),
    "custom tokens with another algorithm": (auth('{ type: "customJwt", issuer: "https://a.com", jwks: "https://a.com/j", algorithm: "HS256" }'), "AuthConfigNotMatchingSchemaError", "list of provider credentials: providers[0].algorithm must be RS256 or ES256"),
    "discovery with an issuer": (auth('{ domain: "https://a.com", issuer: "https://a.com", applicationID: "a" }'), "AuthConfigNotMatchingSchemaError", "list of provider credentials: providers[0] must not have an issuer"),
    "provider by another scheme": (auth('{ domain: "ftp://a.com", applicationID: "a" }'), "InvalidProviderDomainUrl", 'Invalid provider domain URL "ftp://a.com"'),
    "provider in quotes": (auth("""{ domain: '"https://a.com"', applicationID: "a" }"""), "InvalidProviderDomainUrl", 'Invalid provider domain URL ""https://a.com""'),
    "provider that is no domain": (auth('{ domain: "nonsense", applicationID: "a" }'), "InvalidProviderDomainUrl", 'Invalid provider domain URL "nonsense"'),
    "clock in a definition": ({"convex.config.ts": CONFIG + "Date.now(); export default defineApp();"}, "InvalidConvexConfig", "Date unsupported when evaluating definition"),
    "randomness in a definition": ({"convex.config.ts": CONFIG + "Math.random(); export default defineApp();"}, "InvalidConvexConfig", "Math.random unsupported when evaluating definition"),
    "definition that is none": ({"convex.config.ts": "export default {};"}, "InvalidDefinition", "The default export of `convex.config.ts` in your app has an invalid value"),
    "instance name": (component('const app = defineApp(); app.use(c, { name: "a-b" });'), "InvalidDefinition", 'Invalid component name "a-b" in your app: it must be an identifier'),
    "component schema that throws": (component("const app = defineApp(); app.use(c);", c__schema='throw new Error("no"); export default 1;'), "InvalidSchema", "Uncaught Error: no"),
    "variable of another type": ({"convex.config.ts": CONFIG + "export default defineApp({ env: { N: v.number() as any } });"}, "InvalidEnvVarDeclaration", "Environment variable N in your app must be a string, a string literal or a union of these"),
    "unknown variable of a component": (component('const app = defineApp(); app.use(c, { env: { A: "x" } } as any);'), "TypecheckError", 'Component c has no env var named "A"'),
    "missing variable of a component": (component("const app = defineApp(); app.use(c);", ", { env: { A: v.string() } }"), "TypecheckError", 'Component c is missing required env var "A"'),
    "wrong variable of a component": (component('const app = defineApp(); app.use(c, { env: { A: "x" } } as any);', ', { env: { A: v.literal("y") } }'), "TypecheckError", 'Component c has an invalid value for env var "A"'),
    "mount without routes": (component('const app = defineApp(); app.use(c, { httpPrefix: "/c/" } as any);'), "TypecheckError", "Component c doesn't have any HTTP routes."),
    "auth that is no list": ({"auth.config.ts": "export default { providers: {} };"}, "AuthConfigNotMatchingSchemaError", "auth config file must include a list of provider credentials: `providers` must be an array"),
    "provider that is null": (auth("null"), "AuthConfigNotMatchingSchemaError", "list of provider credentials: providers[0] must be an object"),
    "provider whose domain has a toString": (auth('{ domain: { toString: "https://a.com" }, applicationID: "a" }'), "AuthConfigNotMatchingSchemaError", "providers[0].domain must be a string"),
    "custom tokens without keys": (auth('{ type: "customJwt", issuer: "https://a.com", algorithm: "RS256" }'), "AuthConfigNotMatchingSchemaError", "providers[0].jwks must be a string"),
    "custom tokens with a misspelt application": (auth('{ type: "customJwt", issuer: "https://a.com", jwks: "https://a.com/j", algorithm: "RS256", applicationId: "a" }'), "AuthConfigNotMatchingSchemaError", "providers[0].applicationID must be a string"),
    "custom tokens with an application that is no text": (auth('{ type: "customJwt", issuer: "https://a.com", jwks: "https://a.com/j", algorithm: "RS256", applicationID: 5 }'), "AuthConfigNotMatchingSchemaError", "providers[0].applicationID must be a string"),
    "custom tokens of a shared issuer": (auth('{ type: "customJwt", issuer: "https://api.workos.com/", jwks: "https://a.com/j", algorithm: "RS256" }'), "InsecureConfiguration", "The issuer https://api.workos.com/ is shared by all its customers"),
    "performance in auth": ({"auth.config.ts": "performance.now(); export default { providers: [] };"}, "InvalidAuthConfig", "Performance unsupported when evaluating auth config file"),
    "performance in a definition": ({"convex.config.ts": CONFIG + "performance.now(); export default defineApp();"}, "InvalidConvexConfig", "Performance unsupported when evaluating definition"),
    "randomness in auth": ({"auth.config.ts": "export default { providers: [{ domain: String(Math.random()), applicationID: 'a' }] };"}, "InvalidAuthConfig", "Math.random unsupported when evaluating auth config file"),
    "endless loop in auth": ({"auth.config.ts": "for (;;); export default 1;"}, "InvalidAuthConfig", "Function execution timed out (maximum duration: 1s)"),
    "endless loop in a definition": ({"convex.config.ts": "for (;;); export default 1;"}, "InvalidConvexConfig", "Function execution timed out (maximum duration: 1s)"),
    "database in a definition": ({"convex.config.ts": CONFIG + 'Convex.syscall("1.0/queryStream", "{}"); export default defineApp();'}, "InvalidConvexConfig", "Can't use database at import time"),
    "variables in the definition of a component": (component(USE, child="if (process.env.X === undefined) throw new Error('hidden');"), "InvalidConvexConfig", "hidden"),
    "definition of another kind": ({"convex.config.ts": CONFIG + 'export default defineComponent("c");'}, "InvalidDefinition", BROKEN),
    "component that is an app": ({**component(USE), "c/convex.config.ts": CONFIG + "export default defineApp();"}, "InvalidDefinition", PUSH + "The default export of `convex.config.ts` in component `c` has an invalid value"),
    "definition that exports null": (raw_config(None), "InvalidDefinition", BROKEN),
    "definition that exports a text": (raw_config("text"), "InvalidDefinition", BROKEN),
    "definition with a child that is null": (raw_config({**APP, "childComponents": [None]}), "InvalidDefinition", BROKEN),
    "definition with a child whose name has a toString": (raw_config({**APP, "childComponents": [{"name": MISLEADING, "path": "c"}]}), "InvalidDefinition", BROKEN),
    "definition with bindings that are none": (raw_config({**APP, "childComponents": [{"name": "c", "path": "c", "env": [["A", {"type": "other"}]]}]}), "InvalidDefinition", BROKEN),
    "definition with mounts that are no text": (raw_config({**APP, "httpMounts": {"/c/": MISLEADING}}), "InvalidDefinition", BROKEN),
    "definition with variables that are no JSON": (raw_config({**APP, "envVars": [["A", {"value": "nonsense"}]]}), "InvalidDefinition", BROKEN),
    "child that is not there": (raw_config({**APP, "childComponents": [{"name": "c", "path": "c"}]}), "TypecheckError", "Component definition not found: c"),
    "mount of a child that is not used": (raw_config({**APP, "httpMounts": {"/c/": "_reference/childComponent/c"}}), "TypecheckError", "Component c is mounted but not used"),
    "component without a name": (component('const app = defineApp(); app.use(c, { name: "" });'), "InvalidConvexConfig", "Component name cannot be empty."),
    "components that use each other": ({**component(USE), **uses("c", "d"), **uses("d", "c")}, "CyclicImport", "Found cyclic definition dependency: c"),
    "component that uses itself": ({**component(USE), "c/convex.config.ts": CONFIG + 'import self from "../c/convex.config"; const c = defineComponent("c"); c.use(self); export default c;'}, "CyclicImport", "Found cyclic definition dependency: c"),
    "component inside itself without the library": ({**component(USE), **raw_config({**APP, "definitionType": {"type": "childComponent", "name": "c"}, "childComponents": [{"name": "c", "path": "c"}]}, "c/convex.config.ts")}, "CyclicImport", "Found cyclic definition dependency: c"),
    "component that uses the app": ({**component(USE), "c/convex.config.ts": CONFIG + 'import app from "../convex.config"; const c = defineComponent("c"); c.use(app); export default c;'}, "NoImportAppDuringDefinitionEvaluation", "Can't import the app while evaluating definitions"),
    "variable that is an id": ({"convex.config.ts": CONFIG + 'export default defineApp({ env: { N: v.id("t") as any } });'}, "InvalidEnvVarDeclaration", "Environment variable N in your app must be a string, a string literal or a union of these"),
    "variable of the parent that is not declared": (bound("v.string()", "v.string()", '{ __envVarRef: "Z" }'), "TypecheckError", 'Component c references undeclared parent env var "Z"'),
    "variable of the parent that the library does not know": (bound("v.string()", "v.string()", "app.env.Z"), "InvalidConvexConfig", 'Env var "Z" is not declared on this app.'),
    "optional variable of the parent for a required one": (bound("v.optional(v.string())", "v.string()"), "TypecheckError", 'Env var "B" of component c is required, but parent env var "A" is optional'),
    "variable of the parent with other values": (bound("v.string()", 'v.literal("x")'), "TypecheckError", 'Env var "B" of component c: its validator is not satisfied by parent env var "A"'),
    "variable of the parent with more values": (bound('v.union(v.literal("x"), v.literal("y"))', 'v.literal("x")'), "TypecheckError", "is not satisfied by parent env var"),
    "variable that is bound to a number": (bound("v.string()", "v.string()", "5"), "InvalidConvexConfig", 'Env var "B" must be a string or an env var reference. Received: number'),
    "mount without slash": (component('const app = defineApp(); app.use(c, { httpPrefix: "c/" } as any);', c__http=CHILD_HTTP), "InvalidConvexConfig", 'httpPrefix must start with "/". Received: "c/"'),
    "mount with a star": (component('const app = defineApp(); app.use(c, { httpPrefix: "/*/" } as any);', c__http=CHILD_HTTP), "InvalidDefinition", "Invalid httpPrefix /*/"),
    "mount on a prefix of the app": (component('const app = defineApp(); app.use(c, { httpPrefix: "/c/" } as any);', c__http=CHILD_HTTP, http='import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; const http = httpRouter(); http.route({ pathPrefix: "/c/", method: "GET", handler: httpAction(async () => new Response("")) }); export default http;'), "TypecheckError", "Overlap with existing prefix route: /c/"),
    "component schema with a mistake": (component(USE, c__schema=SERVER + "export default defineSchema({ _t: defineTable({}) });"), "TableNameReserved", "_t is a reserved table name."),
    "component module that throws": (component(USE, c__m='throw new Error("inner"); export {};'), "InvalidModules", "Failed to analyze m.js: Uncaught Error: inner"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_push_is_refused(core: Core, bundler: Bundler, files: Files, code: str, text: str) -> None:
    check_refusal(core, bundler, files, code, text)


ACCEPTED = {
    "auth of both kinds": auth('{ domain: "a.com", applicationID: "a", more: 1 }, { type: "customJwt", issuer: "http://localhost:3000", jwks: "data:text/plain,{}", algorithm: "ES256" }'),
    "a shared issuer with an application": auth('{ type: "customJwt", issuer: "https://api.workos.com/", jwks: "https://a.com/j", algorithm: "RS256", applicationID: "a" }'),
    "an issuer of one's own at WorkOS": auth('{ type: "customJwt", issuer: "https://api.workos.com/user_management/client", jwks: "https://a.com/j", algorithm: "RS256", applicationID: null }'),
    "no providers": {"auth.config.ts": "export default { providers: [] };"},
    "console in a definition": {"convex.config.ts": CONFIG + "console.log(1); export default defineApp();"},
    "the same component under two names": component('const app = defineApp(); app.use(c); app.use(c, { name: "d" });'),
    "two ways to one component": {**component("const app = defineApp(); app.use(c);"), **uses("c", "d", "e"), **uses("d", "e"), **uses("e")},
    "literals that look like other things": {"convex.config.ts": CONFIG + 'export default defineApp({ env: { N: v.optional(v.union(v.literal("id"), v.literal("x"))) } });'},
    "optional variable of the parent": bound("v.optional(v.string())", "v.optional(v.string())"),
}  # fmt: skip


@pytest.mark.parametrize("files", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_push_is_accepted(core: Core, bundler: Bundler, files: Files) -> None:
    bundler.push(core, files)


ENV = 'import { query } from "./_generated/server"; export const env = query({ args: {}, handler: async () => [process.env.B ?? null, process.env.A ?? null] });'
THROUGH = """
    import { query } from "./_generated/server"; import { components } from "./_generated/api";
    export const env = query({ args: {}, handler: async (ctx): Promise<any> => [process.env.A ?? null, process.env.B ?? null, await ctx.runQuery(components.c.m.env, {})] });
    export const deep = query({ args: {}, handler: async (ctx): Promise<any> => await ctx.runQuery(components.c.m.deep, {}) });
"""
DEEP = """
    import { components } from "./_generated/api";
    export const deep = query({ args: {}, handler: async (ctx): Promise<any> => await ctx.runQuery(components.d.m.env, {}) });
"""


def test_a_variable_reaches_a_component_through_its_parents(core: Core, bundler: Bundler) -> None:
    files = {
        **bound('v.union(v.literal("x"), v.literal("y"))', "v.string()"),
        "m.ts": THROUGH,
        "c/convex.config.ts": CONFIG
        + 'import d from "../d/convex.config"; const c = defineComponent("c", { env: { B: v.string() } }); c.use(d, { env: { B: c.env.B } }); export default c;',
        "c/m.ts": ENV + DEEP,
        "d/convex.config.ts": CONFIG + 'export default defineComponent("d", { env: { B: v.string() } });',
        "d/m.ts": ENV,
    }
    core.control("env.set", variables={"A": "y"})
    try:
        bundler.push(core, files)
        assert core.run("m:env") == ["y", None, ["y", None]]
        assert core.run("m:deep") == ["y", None]
        core.control("env.set", variables={"A": "x"})
        assert core.run("m:deep") == ["x", None]
    finally:
        bundler.push(core, {})
        core.control("env.set", variables={"A": None})


def test_variables_are_checked_when_a_push_is_finished(core: Core, bundler: Bundler) -> None:
    declared = {"convex.config.ts": CONFIG + 'export default defineApp({ env: { A: v.literal("x") } });'}
    missing = refusal(core, bundler, declared)
    assert (missing.code, missing.message) == (
        "MissingEnvironmentVariables",
        PUSH + "Required environment variables are not set: A.",
    )
    core.control("env.set", variables={"A": "y"})
    try:
        wrong = refusal(core, bundler, declared)
        assert (wrong.code, wrong.message) == (
            "InvalidEnvironmentVariable",
            PUSH + "Environment variable A does not match its declared validator",
        )
        core.control("env.set", variables={"A": "x"})
        bundler.push(core, declared)
    finally:
        bundler.push(core, {})
        core.control("env.set", variables={"A": None})
