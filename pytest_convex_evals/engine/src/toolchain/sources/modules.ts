/** Where an import leads: to another file of the submission, to the generated files, or to a package. */
import ts from "typescript";
import { knownConstant } from "./known.js";
import type { Val } from "./values.js";

const EXTENSIONS = [
  "",
  ".ts",
  ".tsx",
  ".mts",
  ".cts",
  ".js",
  ".jsx",
  ".mjs",
  ".cjs",
  "/index.ts",
  "/index.tsx",
  "/index.js",
  "/index.jsx",
];
const GENERATED = /(?:^|\/)_generated\/(\w+)(?:\.[jt]s)?$/;

export type Target = { file: string } | { source: "generated" | "package"; module: string };

export interface ImportFact {
  module: string;
  /** The exported name, `default`, or `*` for the whole module; empty for an import for its effects only. */
  name: string;
  local: string;
  type_only: boolean;
  file: string | null;
  line: number;
}

export function resolveModule(files: ReadonlyMap<string, unknown>, from: string, specifier: string): Target {
  const generated = GENERATED.exec(specifier);
  if (generated !== null) return { source: "generated", module: `_generated/${generated[1]}` };
  for (const base of bases(from, specifier)) {
    const bare = base.replace(/\.[cm]?jsx?$/, "");
    for (const candidate of [base, bare]) {
      const extension = EXTENSIONS.find((end) => files.has(candidate + end));
      if (extension !== undefined) return { file: candidate + extension };
    }
  }
  return { source: "package", module: specifier };
}

function bases(from: string, specifier: string): string[] {
  if (specifier.startsWith(".")) return [normalise(`${from.slice(0, from.lastIndexOf("/") + 1)}${specifier}`)];
  if (/^[@~]\//.test(specifier)) return [specifier.slice(2), `src/${specifier.slice(2)}`];
  return [];
}

function normalise(path: string): string {
  const words: string[] = [];
  for (const word of path.split("/")) {
    if (word === "..") words.pop();
    else if (word !== "." && word !== "") words.push(word);
  }
  return words.join("/");
}

/** What a module outside the submission exports under a name; `*` is the module itself. */
export function outside(target: Exclude<Target, { file: string }>, name: string): Val {
  return knownConstant(target.module, name) ?? { k: "root", source: target.source, module: target.module, name };
}

export const specifierOf = (node: ts.Expression | undefined): string | undefined =>
  node !== undefined && ts.isStringLiteralLike(node) ? node.text : undefined;

export function importsOf(file: ts.SourceFile, files: ReadonlyMap<string, unknown>): ImportFact[] {
  const facts: ImportFact[] = [];
  for (const statement of file.statements) {
    if (!ts.isImportDeclaration(statement)) continue;
    const module = specifierOf(statement.moduleSpecifier);
    if (module === undefined) continue;
    const target = resolveModule(files, file.fileName, module);
    const clause = statement.importClause;
    const whole = clause?.isTypeOnly ?? false;
    const add = (name: string, local: string, typeOnly: boolean): void =>
      void facts.push({
        module,
        name,
        local,
        type_only: typeOnly,
        file: "file" in target ? target.file : null,
        line: file.getLineAndCharacterOfPosition(statement.getStart(file)).line + 1,
      });
    if (clause === undefined) add("", "", false);
    if (clause?.name !== undefined) add("default", clause.name.text, whole);
    const bindings = clause?.namedBindings;
    if (bindings === undefined) continue;
    if (ts.isNamespaceImport(bindings)) add("*", bindings.name.text, whole);
    else
      for (const one of bindings.elements)
        add((one.propertyName ?? one.name).text, one.name.text, whole || one.isTypeOnly);
  }
  return facts;
}
