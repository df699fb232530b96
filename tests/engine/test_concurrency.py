# ruff: noqa: E501 - programs stay on one line
"""Eight clients and mutations that overlap: nothing lost, nothing doubled, conflicts happened. `make soak` runs 10,000."""

import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from .support.core import Core
from .support.project import Bundler, run_node

CLIENTS = 8
EACH = int(os.environ.get("SOAK_MUTATIONS", "2000")) // CLIENTS
ACCOUNTS, START, COUNTERS, NAMES = 30, 300, 4, 1500

FILES = {
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({
          accounts: defineTable({ number: v.number(), balance: v.number() }).index("by_number", ["number"]),
          transfers: defineTable({ op: v.string(), from: v.number(), to: v.number(), amount: v.number(), left: v.number() }),
          counters: defineTable({ number: v.number(), value: v.number() }).index("by_number", ["number"]),
          claims: defineTable({ name: v.number(), owner: v.string() }).index("by_name", ["name"]),
        });
    """,
    "work.ts": """
        import { mutation } from "./_generated/server";
        import { v } from "convex/values";
        const account = (ctx, number) => ctx.db.query("accounts").withIndex("by_number", (q) => q.eq("number", number)).unique();
        export const transfer = mutation({ args: { op: v.string(), from: v.number(), to: v.number(), amount: v.number() }, handler: async (ctx, args) => {
          const from = await account(ctx, args.from);
          if (from.balance < args.amount) return "too poor";
          await ctx.db.patch(from._id, { balance: from.balance - args.amount });
          const to = await account(ctx, args.to);
          await ctx.db.patch(to._id, { balance: to.balance + args.amount });
          await ctx.db.insert("transfers", { ...args, left: from.balance - args.amount });
          return "done";
        } });
        const add = async (ctx, { number }) => {
          const row = await ctx.db.query("counters").withIndex("by_number", (q) => q.eq("number", number)).unique();
          for (let i = 0; i < 10; i++) await ctx.db.get(row._id);
          await ctx.db.patch(row._id, { value: row.value + 1 });
          return row.value + 1;
        };
        export const count = mutation({ args: { number: v.number() }, handler: add });
        export const tally = mutation({ args: { number: v.number() }, handler: add });
        export const claim = mutation({ args: { name: v.number(), owner: v.string() }, handler: async (ctx, { name, owner }) => {
          const taken = await ctx.db.query("claims").withIndex("by_name", (q) => q.eq("name", name)).unique();
          if (taken !== null) return "taken";
          await ctx.db.insert("claims", { name, owner });
          return "done";
        } });
    """,
}

DRIVER = """
    import { ConvexClient, ConvexHttpClient } from "convex/browser";
    import { anyApi as api } from "convex/server";
    const { URL_, CLIENTS, EACH, ACCOUNTS, COUNTERS, NAMES } = process.env;
    let state = 12345;
    const pick = (n) => (state = (state * 48271) % 2147483647) % n;
    const told = [];
    async function attempt(client, name, args) {
      for (;;) {
        try {
          return await client.mutation(api.work[name], args);
        } catch (error) {
          if (!String(error).includes("changed while this mutation was being run")) throw error;
        }
      }
    }
    async function work(client, who) {
      for (let i = 0; i < Number(EACH); i++) {
        const op = `${who}-${i}`;
        const kind = ["transfer", "count", "tally", "claim"][pick(4)];
        const from = pick(Number(ACCOUNTS));
        const args = {
          transfer: { op, from, to: (from + 1 + pick(Number(ACCOUNTS) - 1)) % Number(ACCOUNTS), amount: 1 + pick(50) },
          count: { number: pick(Number(COUNTERS)) },
          tally: { number: pick(Number(COUNTERS)) },
          claim: { name: pick(Number(NAMES)), owner: op },
        }[kind];
        told.push([kind, args, await attempt(client, kind, args)]);
      }
    }
    const clients = Array.from({ length: Number(CLIENTS) }, (_, i) => (i % 2 ? new ConvexHttpClient(URL_) : new ConvexClient(URL_)));
    await Promise.all(clients.map(work));
    for (const client of clients) if (client instanceof ConvexClient) await client.close();
    console.log(JSON.stringify(told));
"""


@dataclass
class Soak:
    """What the clients were told, and what the tables hold afterwards."""

    told: list[tuple[str, dict[str, Any], Any]]
    tables: dict[str, list[dict[str, Any]]]
    conflicts: int

    def of(self, kind: str) -> list[tuple[dict[str, Any], Any]]:
        return [(args, result) for name, args, result in self.told if name == kind]


@pytest.fixture(scope="module")
def soak(core: Core, bundler: Bundler, tmp_path_factory: pytest.TempPathFactory) -> Soak:
    bundler.push(core, FILES)
    core.control("insert", table="accounts", documents=[{"number": n, "balance": START} for n in range(ACCOUNTS)])
    core.control("insert", table="counters", documents=[{"number": n, "value": 0} for n in range(COUNTERS)])
    before = core.control("stats")["conflicts"]
    numbers = {"CLIENTS": CLIENTS, "EACH": EACH, "ACCOUNTS": ACCOUNTS, "COUNTERS": COUNTERS, "NAMES": NAMES}
    environment = {"URL_": core.url, **{name: str(value) for name, value in numbers.items()}}
    deadline = 120 + EACH * CLIENTS / 10
    printed = run_node(DRIVER, tmp_path_factory.mktemp("soak"), deadline, **environment)
    told = json.loads(printed.splitlines()[-1])
    tables = {
        name: core.control("list", table=name)["documents"] for name in ("accounts", "transfers", "counters", "claims")
    }
    return Soak([tuple(one) for one in told], tables, core.control("stats")["conflicts"] - before)


def test_every_mutation_was_answered_and_conflicts_happened(soak: Soak) -> None:
    assert len(soak.told) == CLIENTS * EACH
    # Only calls of different functions run side by side, and one that has conflicted runs alone for a second.
    assert soak.conflicts > 0, soak.conflicts


def test_transfers_are_those_that_clients_were_told_of(soak: Soak) -> None:
    done = {args["op"] for args, result in soak.of("transfer") if result == "done"}
    assert Counter(row["op"] for row in soak.tables["transfers"]) == Counter(done)


def test_balances_are_those_of_the_transfers_in_their_order(soak: Soak) -> None:
    balances = dict.fromkeys(range(ACCOUNTS), START)
    for row in soak.tables["transfers"]:
        balances[row["from"]] -= row["amount"]
        balances[row["to"]] += row["amount"]
        assert balances[row["from"]] == row["left"] >= 0
    assert {row["number"]: row["balance"] for row in soak.tables["accounts"]} == balances


def test_each_value_of_a_counter_was_given_out_once(soak: Soak) -> None:
    for row in soak.tables["counters"]:
        told = [*soak.of("count"), *soak.of("tally")]
        given = sorted(result for args, result in told if args["number"] == row["number"])
        assert given == list(range(1, int(row["value"]) + 1))


def test_each_name_has_the_one_owner_who_was_told_so(soak: Soak) -> None:
    winners = sorted((args["name"], args["owner"]) for args, result in soak.of("claim") if result == "done")
    assert winners == sorted((row["name"], row["owner"]) for row in soak.tables["claims"])
    assert {args["name"] for args, _ in soak.of("claim")} == {row["name"] for row in soak.tables["claims"]}
    assert len(winners) == len(soak.tables["claims"]) <= NAMES
