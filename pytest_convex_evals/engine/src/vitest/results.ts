/** From vitest's report to plain data. */

import type { TestCase, TestModule, TestSuite } from "vitest/node";

export interface Problem {
  message: string;
  /** Differences and the places in the sources. */
  detail: string;
  /** The file that it comes from; empty when nobody knows. */
  file: string;
}

export interface TestResult {
  /** With the names of the groups around it. */
  name: string;
  /** `running`: it had begun and not ended. */
  state: "passed" | "failed" | "skipped" | "running" | "pending";
  /** Milliseconds. */
  duration: number;
  problems: Problem[];
}

/** What vitest and Vite say about an error, as far as they do. */
interface AnyError {
  message?: string;
  diff?: string;
  /** Of sources that cannot be compiled. */
  __vitest_rollup_error__?: { id?: string; frame?: string; loc?: { file?: string } };
  stacks?: { file: string; line: number; column: number; method: string }[];
}

export function described(error: AnyError): Problem {
  const compiling = error.__vitest_rollup_error__;
  const own = (error.stacks ?? []).filter(({ file }) => !file.includes("/node_modules/"));
  const places = own.map(({ file, line, column, method }) => `    at ${method ? `${method} ` : ""}${file}:${line}:${column}`);
  const detail = [compiling?.frame, error.diff, ...places].filter((part) => part !== undefined && part !== "").join("\n");
  return {
    message: plain(error.message ?? String(error)),
    detail: plain(detail),
    file: compiling?.loc?.file ?? compiling?.id ?? own[0]?.file ?? "",
  };
}

/** Without colours. */
function plain(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\x1b\[[0-9;]*m/g, "");
}

/** Every test of a module in its order; what went wrong around a test that did not run is its problem, too. */
export function testsOf(module: TestModule): TestResult[] {
  return [...module.children.allTests()].map((test) => resultOf(test));
}

function resultOf(test: TestCase): TestResult {
  const result = test.result();
  const problems = (result.errors ?? []).map(described);
  const duration = test.diagnostic()?.duration ?? 0;
  if (result.state === "skipped") {
    const around = problemsAround(test);
    return { name: test.fullName, state: around.length > 0 ? "failed" : "skipped", duration, problems: around };
  }
  const state = result.state === "pending" && test.diagnostic()?.startTime !== undefined ? "running" : result.state;
  return { name: test.fullName, state, duration, problems };
}

function problemsAround(test: TestCase): Problem[] {
  if (test.options.mode !== "run") return [];
  const found: Problem[] = [];
  for (let parent: TestSuite | TestModule = test.parent; ; parent = parent.parent) {
    found.push(...parent.errors().map(described));
    if (parent.type === "module") return found;
  }
}
