/** System functions with which the CLI follows imports and exports. */

import { string, takes } from "./arguments.js";
import type { SystemFunction } from "./functions.js";

export const PORTABLE_FUNCTIONS: [string, SystemFunction][] = [
  ["cli/queryImport:default", { kind: "Query", args: takes({ importId: string }), run: ({ engine, args }) => engine.imports.describe(String(args["importId"])) }],
  ["cli/queryImport:list", { kind: "Query", args: takes({}), run: ({ engine }) => engine.imports.list() }],
  ["cli/exports:getLatest", { kind: "Query", args: takes({}), run: ({ engine }) => engine.exports.describe() }],
];
