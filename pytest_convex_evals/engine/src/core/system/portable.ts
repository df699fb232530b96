/** System functions with which the CLI follows imports and exports. */

import type { SystemFunction } from "./functions.js";

export const PORTABLE_FUNCTIONS: [string, SystemFunction][] = [
  ["cli/queryImport:default", { kind: "Query", args: ["importId"], run: ({ engine, args }) => engine.imports.describe(String(args["importId"])) }],
  ["cli/queryImport:list", { kind: "Query", args: [], run: ({ engine }) => engine.imports.list() }],
  ["cli/exports:getLatest", { kind: "Query", args: [], run: ({ engine }) => engine.exports.describe() }],
];
