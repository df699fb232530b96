import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { anyApi } from "convex/server";
import { expect, test } from "vitest";
import { ADMIN_KEY, apiUrl, client } from "../../../grader";

const project = process.env.MODEL_OUTPUT_DIR as string;

test("counts", async () => {
  await client.mutation(anyApi.counter.increment, { by: 4 });
  expect(await client.query(anyApi.counter.value, {})).toBe(4);
});

test("its own tests pass, and there are some", () => {
  const report = join(mkdtempSync(join(tmpdir(), "own-")), "report.json");
  const done = spawnSync("npx", ["vitest", "run", "--reporter=json", `--outputFile=${report}`], { cwd: project, encoding: "utf8" });
  expect(done.status, `${done.stdout}${done.stderr}`).toBe(0);
  expect(JSON.parse(readFileSync(report, "utf8")).numPassedTests).toBeGreaterThan(0);
}, 60_000);

test("the command line works with the development key", () => {
  const where = ["--url", apiUrl, "--admin-key", ADMIN_KEY];
  const done = spawnSync("npx", ["convex", "run", ...where, "counter:increment", '{"by": 1}'], { cwd: project, encoding: "utf8", env: { ...process.env, CI: "1" } });
  expect(done.status, `${done.stdout}${done.stderr}`).toBe(0);
}, 60_000);
