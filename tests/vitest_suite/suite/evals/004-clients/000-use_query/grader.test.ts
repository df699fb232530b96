import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { anyApi } from "convex/server";
import { expect, test } from "vitest";
import { client } from "../../../grader";

const project = process.env.MODEL_OUTPUT_DIR as string;

test("the query answers", async () => {
  await client.mutation(anyApi.notes.add, { author: "ada", text: "one" });
  expect(await client.query(anyApi.notes.of, { author: "ada" })).toHaveLength(1);
});

test("texts is exported", () => {
  const text = readFileSync(join(project, "src", "texts.ts"), "utf8");
  const file = ts.createSourceFile("texts.ts", text, ts.ScriptTarget.Latest);
  expect(file.statements.some((one) => ts.isFunctionDeclaration(one) && one.name?.text === "texts")).toBe(true);
});

test("a component, if there is one, asks by useQuery", () => {
  const path = join(project, "src", "Notes.tsx");
  if (existsSync(path)) expect(readFileSync(path, "utf8")).toMatch(/useQuery\(/);
});
