/** Methods `typecheck` and `lint`: what is wrong with the files of a submission, by our rules, on one program. */
import { relative } from "node:path";
import ts from "typescript";

import { RequestError } from "../request.js";
import { isProvenClean } from "./checkers.js";
import { lintFile, type SuiteConfigs } from "./lint.js";
import { createProject, type CheckedProject } from "./program.js";
import { UnusableConfig } from "./suite.js";

/** One complaint, as people read it. */
export interface Finding {
  file: string;
  line: number;
  column: number;
  rule: string;
  message: string;
}

const MOST = 200;
let latest: { project: string; checked: CheckedProject } | undefined;

interface CheckParams {
  project: string;
  toolchain: string;
  files: string[];
}

function read(params: unknown): CheckParams {
  const { project, toolchain, files } = (params ?? {}) as Record<string, unknown>;
  const strings = Array.isArray(files) && files.every((file) => typeof file === "string");
  if (typeof project !== "string" || typeof toolchain !== "string" || !strings) {
    throw new RequestError("bad_request", "project, toolchain and files are needed");
  }
  return { project, toolchain, files: files as string[] };
}

/** Type errors in the submission's own files. */
export function typecheck(params: unknown): { findings: Finding[] } {
  const { project, toolchain, files } = read(params);
  let checked = createProject(project, toolchain, files);
  latest = { project, checked };
  if (isProvenClean(checked.program, checked.isOwn)) return { findings: [] };
  checked = createProject(project, toolchain, files);
  latest = { project, checked };
  const root = checked.program.getCurrentDirectory();
  const findings: Finding[] = [];
  for (const path of checked.own) {
    const file = checked.program.getSourceFile(path);
    if (file === undefined) continue;
    const found = [...checked.program.getSyntacticDiagnostics(file), ...checked.program.getSemanticDiagnostics(file)];
    for (const diagnostic of found) findings.push(described(diagnostic, root));
  }
  return { findings: findings.slice(0, MOST) };
}

function described(diagnostic: ts.Diagnostic, root: string): Finding {
  const start = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start ?? 0);
  return {
    file: diagnostic.file === undefined ? "" : relative(root, diagnostic.file.fileName),
    line: (start?.line ?? 0) + 1,
    column: (start?.character ?? 0) + 1,
    rule: `TS${diagnostic.code}`,
    message: ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n"),
  };
}

/** Lint errors in the submission's own files; the program of the type check is used again. `problem`: the suite's config is no good. */
export async function lint(params: unknown): Promise<{ findings: Finding[]; problem?: string }> {
  const { project, toolchain, files } = read(params);
  const { configs = {} } = params as { configs?: SuiteConfigs };
  const checked = latest?.project === project ? latest.checked : createProject(project, toolchain, files);
  const root = checked.program.getCurrentDirectory();
  const findings: Finding[] = [];
  for (const path of checked.own) {
    const file = checked.program.getSourceFile(path);
    try {
      if (file !== undefined) findings.push(...(await lintFile(checked.program, root, relative(root, path), file.text, configs)));
    } catch (error) {
      if (error instanceof UnusableConfig) return { findings: [], problem: error.message };
      throw error;
    }
  }
  return { findings: findings.slice(0, MOST) };
}
