/**
 * Compiler options for submissions: ours, strict, with what a project may decide taken from its own tsconfig.
 *
 * A submission must neither fail by boilerplate (no tsconfig, a legacy one, `types` that are not installed) nor switch
 * checking off (`strict: false`, an `include` of nothing, mappings onto packages of its own making).
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

const OURS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts", "lib.esnext.disposable.d.ts"],
  jsx: ts.JsxEmit.ReactJSX,
  libReplacement: false,
  skipLibCheck: true,
  isolatedModules: true,
  allowJs: true,
  checkJs: false,
  allowSyntheticDefaultImports: true,
  esModuleInterop: true,
  resolveJsonModule: true,
  allowImportingTsExtensions: true,
  forceConsistentCasingInFileNames: true,
};

const JSX: Readonly<Record<string, ts.JsxEmit>> = {
  preserve: ts.JsxEmit.Preserve,
  react: ts.JsxEmit.React,
  "react-jsx": ts.JsxEmit.ReactJSX,
  "react-jsxdev": ts.JsxEmit.ReactJSXDev,
};

/** The options for a project; `toolchain` holds the types that a project may forget to list. */
export function compilerOptions(project: string, toolchain: string): ts.CompilerOptions {
  const options: ts.CompilerOptions = {
    ...OURS,
    typeRoots: [join(project, "node_modules/@types"), join(toolchain, "node_modules/@types")],
  };
  for (const name of ["convex/tsconfig.json", "tsconfig.json"]) Object.assign(options, keptOptions(project, name));
  return options;
}

function keptOptions(project: string, name: string): ts.CompilerOptions {
  const path = join(project, name);
  if (!existsSync(path)) return {};
  const { config } = ts.parseConfigFileTextToJson(path, readFileSync(path, "utf8")) as { config?: unknown };
  const theirs = isRecord(config) && isRecord(config.compilerOptions) ? config.compilerOptions : {};
  const kept: ts.CompilerOptions = {};
  const jsx = typeof theirs.jsx === "string" ? JSX[theirs.jsx] : undefined;
  if (jsx !== undefined) kept.jsx = jsx;
  if (typeof theirs.jsxImportSource === "string") kept.jsxImportSource = theirs.jsxImportSource;
  const paths = keptPaths(theirs.paths, project);
  if (paths !== undefined) {
    kept.paths = paths;
    const base = typeof theirs.baseUrl === "string" ? theirs.baseUrl : ".";
    kept.baseUrl = join(path, "..", base);
  }
  return kept;
}

/** Mappings of the project's own names; one that covers an installed package is dropped. */
function keptPaths(paths: unknown, project: string): Record<string, string[]> | undefined {
  if (!isRecord(paths)) return undefined;
  const kept: Record<string, string[]> = {};
  for (const [pattern, targets] of Object.entries(paths)) {
    if (!Array.isArray(targets) || !targets.every((target) => typeof target === "string")) continue;
    if (coversPackage(pattern, project)) continue;
    kept[pattern] = targets.filter((target) => !target.includes("node_modules"));
  }
  return kept;
}

function coversPackage(pattern: string, project: string): boolean {
  if (pattern.startsWith("*") || pattern.startsWith(".") || pattern.startsWith("/")) return true;
  const [first = "", second = ""] = pattern.split("/");
  const name = first.startsWith("@") && first.length > 1 ? `${first}/${second}` : first;
  return name.includes("*")
    ? first !== "@" && first !== "~" && first !== "#"
    : existsSync(join(project, "node_modules", name));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
