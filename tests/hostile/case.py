"""What a hostile submission is made of, and how attacks are written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

StepName = Literal["filesystem", "install", "deploy", "tsc", "eslint", "tests"]


@dataclass(frozen=True)
class Case:
    """One submission: the honest answer with some files laid over it."""

    name: str
    attempts: str
    """What it tries, in words."""
    files: Mapping[str, str]
    """`{SECRET}`, `{HOME}`, `{OUTSIDE}`, `{PORT}`, `{PID}`, `{STORE}`, `{JOURNAL}` and `{OTHER}` are filled in."""
    step: StepName
    """Where it is decided."""
    outcome: Literal["passed", "failed", "error"]
    """Of that step: `passed` means that the attempt came to nothing and honest functions still work."""
    cause: str = ""
    reason: str = ""
    """A regular expression for the reason or for the checks of the step."""
    stopped_by: tuple[str, ...] = ("bwrap", "namespaces", "node")
    """Levels that stop it; at others it must succeed, or the list is wrong."""
    everywhere: bool = True
    """Decided by code that runs in the cage; others are graded once."""
    quick: bool = False
    """Part of `make test`."""
    attack: str = ""
    """A check of its own, where calling `evil:go` is not enough."""


CAGED = ("bwrap", "namespaces")
"""What only namespaces stop."""

TRY = """
const tried = async (act: () => unknown): Promise<string> => {
  try { return "did it: " + String(await act()).slice(0, 300); } catch (error) { return "refused"; }
};
const load = (name: string): any => (process as any).getBuiltinModule(name);
"""


def node_action(body: str) -> dict[str, str]:
    """A Node action whose attempt is an expression or a block that returns."""
    return {"convex/evil.ts": f'"use node";\n{_module("action", body)}'}


def clean_node_action(body: str) -> dict[str, str]:
    """A Node action that types and lint have nothing against, so that its crash decides."""
    return {
        "convex/evil.ts": '"use node";\nimport fs from "node:fs";\nimport { v } from "convex/values";\n'
        'import { action } from "./_generated/server";\n\nconst tell = (bytes: Buffer) => fs.writeSync(3, bytes);\n'
        "export const go = action({ args: { url: v.string() }, handler: async () => {\n"
        f"  {body}\n"
        "  return await new Promise<string>((ok) => setTimeout(() => ok(String(typeof tell)), 5000));\n} });\n"
    }


def action(body: str) -> dict[str, str]:
    return {"convex/evil.ts": _module("action", body)}


def query(body: str) -> dict[str, str]:
    return {"convex/evil.ts": _module("query", body)}


def _module(kind: str, body: str) -> str:
    return (
        f'import {{ {kind} }} from "./_generated/server";\nimport {{ v }} from "convex/values";\n{TRY}\n'
        f"export const go = {kind}({{ args: {{ url: v.string() }}, handler: async (_ctx: any, args: any) =>\n"
        f"  await tried(async () => {{ {body} }}) }});\n"
    )


ESCAPE = 'const outer = (URL as any).constructor("return process")();'
"""Out of the context of a function, into the runner's own realm."""
