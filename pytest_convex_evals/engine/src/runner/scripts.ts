/**
 * Bundled modules as plain scripts.
 *
 * Node never frees a context in which a `SourceTextModule` was compiled, and compiles a module again for each context. The CLI's
 * bundles have a simple outline (imports first, one export clause last), so a module is turned into a function that is compiled
 * once and run for each call. Exports stay live through getters; imported bindings are read once, so modules whose exports
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
  /** It may declare variables of the context that are no properties of anything. */
  evaluatesText: boolean;
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
const EXPORT = /(^|[\n;}])\s*export\s*\{([^}]*)\}\s*;?\s*(?:\/\*(?:[^*]|\*(?!\/))*\*\/\s*)*$/;

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

const ASSIGNED = /\s*(?:=(?![=>])|(?:[-+*/%&|^]|\*\*|<<|>>>?|\?\?|\|\||&&)=)/y;
const STEPPED = /\s*(?:\+\+|--)/y;
const ITERATED = /\s+(?:of|in)\b/y;
const AFTER_STEP = /(?:\+\+|--)\s*$/;
const AFTER_FOR = /\bfor\s*(?:await\s*)?\(\s*$/;
const AFTER_KEYWORD = /(?<![\w$.])(?:function\s*\*?|class)\s+$/;
const NAME_BEFORE = /[\w$.]/;
const NAME_AFTER = /[\w$]/;
/** How far back a look at what comes before a name goes. */
const BEFORE = 64;

function isFollowedBy(what: RegExp, source: string, at: number): boolean {
  what.lastIndex = at;
  return what.test(source);
}

/** Where a name stands alone: neither in a longer one nor after a dot. */
function* places(source: string, name: string): Generator<number> {
  for (let at = source.indexOf(name); at >= 0; at = source.indexOf(name, at + name.length)) {
    if (!NAME_BEFORE.test(source.charAt(at - 1)) && !NAME_AFTER.test(source.charAt(at + name.length))) yield at;
  }
}

/**
 * Whether one of these top-level bindings may be assigned again after its declaration. The bundler gives such bindings names of their
 * own, so a look at the text is enough; where the text is unclear the answer is yes.
 */
function isReassigned(source: string, locals: readonly string[]): boolean {
  if (locals.length === 0) return false;
  const names = [...new Set(locals)];
  const patterns = assignedPatterns(source);
  return names.some((name) => isSetTwice(source, name) || !places(patterns, name).next().done);
}

function isSetTwice(source: string, name: string): boolean {
  let values = 0;
  for (const at of places(source, name)) {
    const before = source.slice(Math.max(0, at - BEFORE), at);
    const end = at + name.length;
    if (AFTER_STEP.test(before) || isFollowedBy(STEPPED, source, end)) return true;
    if (AFTER_FOR.test(before) && isFollowedBy(ITERATED, source, end)) return true;
    if (AFTER_KEYWORD.test(before) || isFollowedBy(ASSIGNED, source, end)) values += 1;
    if (values > 1) return true;
  }
  return false;
}

/** The texts of patterns that are assigned to without being declarations: `[a, b] = …`, `({ a } = …)`, `for ([a] of …)`. */
function assignedPatterns(source: string): string {
  const found: string[] = [];
  for (const match of source.matchAll(/[\]}]\s*(?:=(?![=>])|\b(?:of|in)\b)/g)) {
    const open = openingBracket(source, match.index);
    if (open === null || /(?:^|[^\w$.])(?:var|let|const)\s*$|[\w$)\]?.]$/.test(source.slice(Math.max(0, open - 12), open))) continue;
    found.push(source.slice(open, match.index + 1));
  }
  return found.join("\n");
}

const PATTERN_LIMIT = 4000;

function openingBracket(source: string, close: number): number | null {
  let depth = 0;
  for (let at = close; at >= 0 && close - at < PATTERN_LIMIT; at--) {
    const char = source[at];
    if (char === "]" || char === "}") depth += 1;
    else if (char === "[" || char === "{") depth -= 1;
    if (depth === 0) return at;
  }
  return null;
}

/**
 * Whether `await` is used outside async functions, where a script would take `await (x)` for a call. It takes `for await (` for a mistake,
 * so that needs no look.
 */
function hasTopLevelAwait(body: string): boolean {
  if (!/(?<![\w$.])(?<!\bfor )await\s*[([`/+-]/.test(body)) return false;
  try {
    new vm.Script(`(class{static{${body}\n}})`);
    return false;
  } catch {
    return true;
  }
}

/** What is made of the text of a module, whatever its name is. */
export interface Outline {
  imports: ScriptImport[];
  /** What comes before the module in the line in which it begins. */
  prefix: string;
  text: string;
  evaluatesText: boolean;
}

/** The outline of a module, or null when it is not the expected one. */
export function outlineOf(source: string): Outline | null {
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
  const clause = exported === null ? [] : parseClause(exported[2] as string);
  if (clause === null) return null;
  if (exported !== null) body = body.slice(0, exported.index + (exported[1] as string).length);
  if (isReassigned(body, clause.map(([local]) => local)) || hasTopLevelAwait(body)) return null;
  const getters = clause.map(([local, name]) => `get ${name}(){return ${local}}`).join(",");
  const prefix = `(function(${SCOPE}){"use strict";${SCOPE}.exports({${getters}});${bindings}`;
  return { imports, prefix, text: `${prefix}${blank}${body}\n})`, evaluatesText: body.includes("eval") && /(?<![\w$.])eval(?![\w$])/.test(body) };
}

/** The module as a script, or null when it cannot be one. */
export function compileScript({ imports, prefix, text, evaluatesText }: Outline, identifier: string, onDynamicImport: (specifier: string, identifier: string) => unknown): ScriptModule | null {
  try {
    const script = new vm.Script(text, {
      filename: identifier,
      columnOffset: -prefix.length,
      importModuleDynamically: ((specifier: string) => onDynamicImport(specifier, identifier)) as NonNullable<vm.ScriptOptions["importModuleDynamically"]>,
    });
    return { script, imports, evaluatesText };
  } catch {
    return null;
  }
}
