/**
 * The warm vitest of one pytest worker: JSON lines in, JSON lines out, as the toolchain worker.
 *
 * | op     | params                                                  | result                                              |
 * |--------|---------------------------------------------------------|-----------------------------------------------------|
 * | `boot` | `{name, command, folder, processes, suite, grader, cache}` | null. Starts a worker for a grader that comes soon  |
 * | `run`  | `{name, suite, grader, project, cache, env, seconds}`   | the report of `server.ts`; the worker is gone then  |
 * | `drop` | `{name}`                                                | null. Ends a worker that is not needed after all    |
 *
 * This process compiles graders and evaluates none: they run in the workers, which are caged. It ends when its stdin closes.
 */

import { createInterface } from "node:readline";

import type { Processes } from "./processes.js";
import { Servers, type Run } from "./server.js";
import { BootedWorker } from "./workers.js";

const write = process.stdout.write.bind(process.stdout);
const print = (line: unknown): boolean => write(`${JSON.stringify(line)}\n`);
// A library that prints must not break the protocol.
process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;

interface Boot {
  name: string;
  command: string[];
  folder: string;
  /** How processes are started that the grader wants; null when it starts them itself. */
  processes: Processes | null;
  suite: string;
  grader: string;
  cache: string;
}

const servers = new Servers();
const booted = new Map<string, BootedWorker>();

function boot({ name, command, folder, processes, suite, grader, cache }: Boot): null {
  const worker = new BootedWorker(command, folder, processes);
  booted.set(name, worker);
  const files = servers.of(suite, cache).expected(grader);
  void worker.ready.then(() => worker.tell({ evals: "preload", files }));
  return null;
}

function take(name: string): BootedWorker {
  const worker = booted.get(name);
  if (worker === undefined) throw new Error(`no worker was booted as ${name}`);
  booted.delete(name);
  return worker;
}

const operations: Readonly<Record<string, (params: never) => unknown>> = {
  boot,
  run: (params: Run & { name: string }) => servers.of(params.suite, params.cache).run(params, take(params.name)),
  drop: ({ name }: { name: string }) => {
    booted.get(name)?.kill();
    booted.delete(name);
    return null;
  },
};

async function handle(line: string): Promise<void> {
  const { id, op, params } = JSON.parse(line) as { id: number; op: string; params: never };
  try {
    const operation = operations[op];
    if (operation === undefined) throw new Error(`there is no operation ${op}`);
    print({ id, ok: await operation(params) });
  } catch (error) {
    print({ id, error: { code: "internal", message: error instanceof Error ? `${error.name}: ${error.message}` : String(error) } });
  }
}

function end(): void {
  for (const worker of booted.values()) worker.kill();
  process.exit(0);
}

process.on("unhandledRejection", (error) => process.stderr.write(`${String(error)}\n`));
print({ ready: { node: process.version } });
const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
lines.on("line", (line) => void handle(line));
lines.on("close", end);
