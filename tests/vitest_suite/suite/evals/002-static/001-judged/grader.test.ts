import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { judge, manifest } from "../../../grader/judge";

const read = (path: string): string => readFileSync(join(process.env.MODEL_OUTPUT_DIR as string, path), "utf8");

test("package.json is as asked", () => {
  expect(() => manifest.parse(JSON.parse(read("package.json")))).not.toThrow();
});

test("a model finds the text long enough", async () => {
  expect(await judge(read("convex/main.ts"))).toEqual({ lines: 4, enough: true });
});
