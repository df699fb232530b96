# ruff: noqa: E501 - programs in tables stay on one line
"""What the real CLI generates for local and installed components, under a strict type check."""

import subprocess
from pathlib import Path

import pytest

from .support.components import PACKAGES
from .support.core import Core
from .support.project import run_cli, write_project
from .support.toolchain import toolchain

TSCONFIG = '{ "compilerOptions": { "strict": true, "noUncheckedIndexedAccess": true, "exactOptionalPropertyTypes": true, "noEmit": true, "skipLibCheck": false, "types": [], "target": "ESNext", "lib": ["ES2023", "dom"], "module": "ESNext", "moduleResolution": "Bundler", "isolatedModules": true, "forceConsistentCasingInFileNames": true }, "include": ["./**/*"] }'
HEAD = 'import { defineApp, defineComponent } from "convex/server"; import { v } from "convex/values";'
FILES = {
    "tsconfig.json": TSCONFIG,
    "convex.config.ts": HEAD
    + """
        import limiter from "@convex-dev/rate-limiter/convex.config.js";
        import ledger from "./ledger/convex.config.js";
        import shop from "./shop/convex.config.js";
        const app = defineApp({ env: { CURRENCY: v.union(v.literal("EUR"), v.literal("CHF")), NOTE: v.optional(v.string()) } });
        app.use(limiter);
        app.use(ledger);
        app.use(shop, { env: { CURRENCY: app.env.CURRENCY } });
        app.use(shop, { name: "outlet", env: { CURRENCY: "CHF" } });
        export default app;
    """,
    "orders.ts": """
        import { v } from "convex/values";
        import { createFunctionHandle, type FunctionHandle } from "convex/server";
        import { RateLimiter } from "@convex-dev/rate-limiter";
        import { components, internal } from "./_generated/api";
        import { env, internalMutation, mutation, query } from "./_generated/server";
        const limiter = new RateLimiter(components.rateLimiter, { order: { kind: "fixed window", rate: 1, period: 1000 } });
        export const total = query({ args: {}, returns: v.number(), handler: async (ctx): Promise<number> => {
          const sums: number[] = [await ctx.runQuery(components.shop.stock.cart.total, {}), await ctx.runQuery(components.outlet.stock.cart.total, {})];
          return sums.reduce((a, b) => a + b, 0); } });
        export const buy = mutation({ args: { name: v.string(), price: v.number() }, handler: async (ctx, args): Promise<string> => {
          const { ok } = await limiter.limit(ctx, "order");
          if (!ok) return "wait";
          const handle: FunctionHandle<"mutation", { id: string }> = await createFunctionHandle(internal.orders.bought);
          const id: string = await ctx.runMutation(components.shop.stock.cart.add, { ...args, size: "S", handle });
          const entered: Record<string, bigint[]> = await ctx.runMutation(components.ledger.book.enter, { amount: BigInt(args.price) });
          if (entered["all"]?.[0] !== BigInt(args.price)) throw new Error("not entered");
          const currency: "EUR" | "CHF" = env.CURRENCY;
          return currency + id.length; } });
        export const bought = internalMutation({ args: { id: v.string() }, returns: v.null(), handler: async () => null });
    """,
    "shop/convex.config.ts": HEAD
    + """
        import limiter from "@convex-dev/rate-limiter/convex.config.js";
        const shop = defineComponent("shop", { env: { CURRENCY: v.union(v.literal("EUR"), v.literal("CHF"), v.literal("USD")) } });
        shop.use(limiter, { name: "tills" });
        export default shop;
    """,
    "shop/schema.ts": 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ items: defineTable({ name: v.string(), price: v.number(), size: v.union(v.literal("S"), v.literal("L")) }) });',
    "shop/stock/cart.ts": """
        import { v } from "convex/values";
        import type { FunctionHandle } from "convex/server";
        import { components } from "../_generated/api.js";
        import { internalQuery, mutation, query } from "../_generated/server.js";
        export const add = mutation({ args: { name: v.string(), price: v.number(), size: v.union(v.literal("S"), v.literal("L")), note: v.optional(v.string()), handle: v.string() }, returns: v.id("items"), handler: async (ctx, { handle, note: _note, ...item }) => {
          const id = await ctx.db.insert("items", item);
          await ctx.runMutation(components.tills.lib.resetRateLimit, { name: item.name });
          await ctx.runMutation(handle as FunctionHandle<"mutation", { id: string }>, { id });
          return id; } });
        export const total = query({ args: {}, returns: v.number(), handler: async (ctx) => (await ctx.db.query("items").collect()).reduce((sum, item) => sum + item.price, 0) });
        export const secret = internalQuery({ args: {}, returns: v.string(), handler: async () => "s" });
    """,
    "ledger/convex.config.ts": HEAD + 'export default defineComponent("ledger");',
    "ledger/book.ts": 'import { v } from "convex/values"; import { mutation } from "./_generated/server.js"; export const enter = mutation({ args: { amount: v.int64() }, returns: v.record(v.string(), v.array(v.int64())), handler: async (_ctx, { amount }) => ({ all: [amount] }) });',
}


@pytest.fixture(scope="module")
def folder(core: Core, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "node_modules").symlink_to(toolchain().packages(PACKAGES))
    core.control("env.set", variables={"CURRENCY": "EUR"})
    return folder


def test_generated_types_hold_under_a_strict_check(core: Core, folder: Path) -> None:
    write_project(folder, FILES)
    pushed = run_cli(core, folder, "dev", "--once", "--typecheck", "enable")
    assert pushed.code == 0, pushed.output
    generated = {
        name: (folder / "convex" / name / "_generated" / "component.ts").read_text() for name in ("shop", "ledger")
    }
    assert 'size: "S" | "L"' in generated["shop"]
    assert "note?: string" in generated["shop"]
    assert "secret" not in generated["shop"]
    assert "Record<string, Array<bigint>>" in generated["ledger"]
    api = (folder / "convex" / "_generated" / "api.d.ts").read_text()
    assert 'import("../shop/_generated/component.js").ComponentApi<"outlet">' in api
    assert 'import("@convex-dev/rate-limiter/_generated/component.js").ComponentApi<"rateLimiter">' in api
    nested = (folder / "convex" / "shop" / "_generated" / "api.ts").read_text()
    assert 'import("@convex-dev/rate-limiter/_generated/component.js").ComponentApi<"tills">' in nested
    assert core.run("orders:buy", {"name": "cup", "price": 3}) == "EUR32"
    assert core.run("orders:total") == 3


WRONG = {
    "an argument": ('size: "S",', 'size: "M",', 'Type \'"M"\' is not assignable to type \'"S" | "L"\''),
    "a missing argument": ('size: "S", ', "", "Property 'size' is missing"),
    "a result": ("const id: string", "const id: number", "Type 'string' is not assignable to type 'number'"),
    "an internal function": (
        "components.outlet.stock.cart.total",
        "components.outlet.stock.cart.secret",
        "Property 'secret' does not exist",
    ),
    "a component": ("components.outlet", "components.outle", "Property 'outle' does not exist"),
}


def test_the_types_refuse_what_components_do_not_have(core: Core, folder: Path) -> None:
    text = FILES["orders.ts"]
    copies = {}
    for number, (right, wrong, _) in enumerate(WRONG.values()):
        assert text.count(right) == 1
        copies[f"wrong{number}.ts"] = text.replace(right, wrong)
    write_project(folder, {**FILES, **copies})
    if not (folder / "convex" / "_generated").exists():
        run_cli(core, folder, "codegen", "--typecheck", "disable")
    checked = subprocess.run(
        [toolchain().node, folder / "node_modules/typescript/bin/tsc", "--project", "convex", "--skipLibCheck"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    complaints = [line for line in checked.stdout.splitlines() if line.startswith("convex/")]
    assert {line.split("(")[0] for line in complaints} == {f"convex/{name}" for name in copies}, checked.stdout
    for _, _, complaint in WRONG.values():
        assert complaint in checked.stdout
