/**
 * Bundled modules as plain scripts.
 *
 * Node never frees a context in which a `SourceTextModule` was compiled, and compiles a module again for each context. The CLI's
 * bundles have a simple outline (imports first, one export clause last), so a module is turned into a function that is compiled
 * once and run in each fresh context. Exports stay live through getters; imported bindings are read once, so modules whose exports
 * change after evaluation are refused here and take the ordinary way.
 */

import vm from "node:vm";

export interface ScriptImport {
  specifier: string;
  /** Names that the importing module binds. */
  names: string[];
}

export interface ScriptModule {
  script: vm.Script;
  imports: ScriptImport[];
}

/** What a module function gets: where to put its exports, where to take its imports. */
export interface ModuleScope {
  exports(getters: object): void;
  take(index: number, name: string): unknown;
}

const SCOPE = "__convexModule$";
const IDENTIFIER = "[A-Za-z_$][\\w$]*";
const IMPORT = new RegExp(`^\\s*import\\s*(?:(${IDENTIFIER})\\s*,?\\s*)?(?:\\{([^}]*)\\})?\\s*(?:from)?\\s*("[^"\\n]*"|'[^'\\n]*')\\s*;?`);
/** The export clause, perhaps followed by the licence comments that the bundler collects at the end. */
const EXPORT = /(?:^|[\n;}])\s*export\s*\{([^}]*)\}\s*;?\s*(?:\/\*(?:[^*]|\*(?!\/))*\*\/\s*)*$/;

function parseClause(clause: string): [string, string][] | null {
  const pairs: [string, string][] = [];
  for (const part of clause.split(",")) {
    const text = part.trim();
    if (text === "") continue;
    const match = new RegExp(`^(${IDENTIFIER})(?:\\s+as\\s+(${IDENTIFIER}))?$`).exec(text);
    if (match === null) return null;
    pairs.push([match[1] as string, match[2] ?? (match[1] as string)]);
  }
  return pairs;
}

/** Whether a top-level binding is assigned again after its declaration. The bundler gives such bindings names of their own. */
function isReassigned(source: string, local: string): boolean {
  const name = local.replaceAll("$", "\\$");
  const assignments = source.match(new RegExp(`(?<![\\w$.])${name}\\s*(?:=(?![=>])|(?:[-+*/%&|^]|\\*\\*|<<|>>>?|\\?\\?|\\|\\||&&)=)`, "g")) ?? [];
  const steps = new RegExp(`(?<![\\w$.])${name}(?:\\+\\+|--)|(?:\\+\\+|--)${name}(?![\\w$])`).test(source);
  return assignments.length > 1 || steps;
}

/** The module as a script, or null when its outline is not the expected one. */
export function compileScript(source: string, identifier: string, onDynamicImport: (specifier: string) => unknown): ScriptModule | null {
  let body = source.replace(/\n\/\/# sourceMappingURL=[^\n]*\s*$/, "\n");
  const imports: ScriptImport[] = [];
  let bindings = "";
  let blank = "";
  for (let match = IMPORT.exec(body); match !== null; match = IMPORT.exec(body)) {
    const named = parseClause(match[2] ?? "");
    if (named === null) return null;
    const index = imports.length;
    const pairs: [string, string][] = [...(match[1] === undefined ? [] : [["default", match[1]] as [string, string]]), ...named];
    for (const [imported, local] of pairs) bindings += `const ${local}=${SCOPE}.take(${index},${JSON.stringify(imported)});`;
    imports.push({ specifier: (match[3] as string).slice(1, -1), names: pairs.map(([imported]) => imported) });
    blank += match[0].replace(/[^\n]/g, "");
    body = body.slice(match[0].length);
  }
  const exported = EXPORT.exec(body);
  const clause = exported === null ? [] : parseClause(exported[1] as string);
  if (clause === null) return null;
  if (exported !== null) body = body.slice(0, exported.index + 1);
  if (clause.some(([local]) => isReassigned(body, local))) return null;
  const getters = clause.map(([local, name]) => `get ${name}(){return ${local}}`).join(",");
  const prefix = `(function(${SCOPE}){"use strict";${SCOPE}.exports({${getters}});${bindings}`;
  try {
    const script = new vm.Script(`${prefix}${blank}${body}\n})`, {
      filename: identifier,
      columnOffset: -prefix.length,
      importModuleDynamically: ((specifier: string) => onDynamicImport(specifier)) as NonNullable<vm.ScriptOptions["importModuleDynamically"]>,
    });
    return { script, imports };
  } catch {
    return null;
  }
}
