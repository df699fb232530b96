/**
 * The inner end of a grader's cage: a vitest worker that waits for its grader.
 *
 * Arguments, each of which may be empty: the folder of compiled code; `folder:port,port` of the second backend, which only this
 * process reaches; where processes are asked for, and the script that stands for one.
 *
 * `--compile FOLDER` loads what graders usually load, keeps it compiled in that folder, and ends.
 */

import { enableCompileCache, flushCompileCache } from "node:module";
import { readdirSync } from "node:fs";

import type { FromWorker, ToWorker } from "../vitest/messages.js";
import { leadInto } from "./answer.js";
import { startOutside } from "./processes.js";

if (process.argv[2] === "--compile") {
  enableCompileCache(process.argv[3]);
  const bundled = readdirSync(new URL("node_modules/", import.meta.url)).map((name) => new URL(`node_modules/${name}`, import.meta.url).href);
  for (const name of ["vitest", "vitest/worker", "typescript", ...bundled]) await import(name).catch(() => undefined);
  flushCompileCache();
  process.exit(0);
}

const [compiled = "", answer = "", processes = "", client = ""] = process.argv.slice(2);
if (compiled !== "") enableCompileCache(compiled);
if (answer !== "") leadInto(answer);
if (processes !== "") startOutside(client, processes);

const send = (message: FromWorker | unknown): void => void process.send?.(message, undefined, {}, () => undefined);

/** A grader that ends its process has no verdict. vitest would make this a failed test, so its own guard is not let in. */
function exit(code?: number | string | null): never {
  send({ evals: "exit", code: String(code ?? process.exitCode ?? 0) } satisfies FromWorker);
  throw new Error(`process.exit(${code ?? ""}) was called`);
}
Object.defineProperty(process, "exit", { get: () => exit, set: () => undefined, configurable: true });

function onMessage(message: ToWorker): void {
  if (message.evals === "begin") Object.assign(process.env, message.env);
  // Whatever cannot be loaded here is told to whoever imports it.
  else if (message.evals === "preload") for (const file of message.files) import(file).catch(() => undefined);
}
process.on("message", onMessage);
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));

const { init, runBaseTests, setupEnvironment } = await import("vitest/worker");
init({
  post: send,
  on: (callback) => process.on("message", callback),
  off: (callback) => process.off("message", callback),
  teardown: () => process.removeAllListeners("message"),
  setup: setupEnvironment,
  runTests: (state, traces) => runBaseTests("run", state, traces),
  collectTests: (state, traces) => runBaseTests("collect", state, traces),
});
send({ evals: "ready" } satisfies FromWorker);
