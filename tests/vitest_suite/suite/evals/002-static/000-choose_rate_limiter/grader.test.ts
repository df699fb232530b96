import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

const project = process.env.MODEL_OUTPUT_DIR as string;

function importsOf(path: string): string[] {
  const source = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest);
  return source.statements.filter(ts.isImportDeclaration).map((statement) => (statement.moduleSpecifier as ts.StringLiteral).text);
}

test("nothing is deployed", () => {
  expect([process.env.CONVEX_PORT, process.env.CONVEX_SITE_PORT, process.env.CONVEX_ANSWER_PORT]).toEqual([undefined, undefined, undefined]);
});

test("installs the component", () => {
  const config = join(project, "convex", "convex.config.ts");
  expect(existsSync(config)).toBe(true);
  expect(importsOf(config)).toContain("@convex-dev/rate-limiter/convex.config.js");
});

test.skipIf(!existsSync(join(project, "convex", "convex.config.ts")))("uses it", () => {
  const files = readdirSync(join(project, "convex")).filter((name) => name.endsWith(".ts"));
  expect(files.flatMap((name) => importsOf(join(project, "convex", name)))).toContain("@convex-dev/rate-limiter");
});
