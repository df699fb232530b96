/**
 * The trusted toolchain worker: JSON lines in, JSON lines out.
 *
 * A request `{"id", "op", "params"}` is answered by `{"id", "ok"}` or `{"id", "error": {"code", "message"}}`.
 * The first line says that the worker is ready. Submitted code is parsed here and never evaluated. Requests are handled one after
 * the other. The worker ends when its stdin closes, and after an answer when it uses more megabytes of memory than its first argument
 * says. The second one is a folder of its own, which whoever started it removes. Nothing but answers may reach stdout.
 */
import { createInterface } from "node:readline";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import ts from "typescript";
import { methods, RequestError } from "./methods.js";

const write = process.stdout.write.bind(process.stdout);
const answer = (line: unknown): Promise<void> => new Promise((sent) => write(`${JSON.stringify(line)}\n`, () => sent()));
const MB = 1024 * 1024;
const most = Number(process.argv[2] ?? Infinity) * MB;
/** So much may lie about. */
const GARBAGE = 128 * MB;
/** The heap after the latest collection; at first what the tools take once they are loaded. */
let inUse = 256 * MB;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/**
 * Checkers that were given up lie about for long, because the heap may grow; they would fill the memory, and a worker that starts anew
 * costs as much as thirty submissions.
 */
function collectGivenUp(): void {
  if (getHeapStatistics().used_heap_size < inUse + GARBAGE) return;
  collectGarbage();
  inUse = getHeapStatistics().used_heap_size;
}

// A library that prints must not break the protocol.
process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;

function fault(error: unknown): { code: string; message: string } {
  if (error instanceof RequestError) return { code: error.code, message: error.message };
  return { code: "internal", message: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
}

async function handle(line: string): Promise<void> {
  let id: unknown = null;
  try {
    let request: unknown;
    try {
      request = JSON.parse(line);
    } catch {
      throw new RequestError("bad_request", "the line is not JSON");
    }
    if (typeof request !== "object" || request === null)
      throw new RequestError("bad_request", "the request is not an object");
    const { id: given, op, params } = request as { id?: unknown; op?: unknown; params?: unknown };
    id = given ?? null;
    const run = methods.get(String(op));
    if (run === undefined) throw new RequestError("unknown_method", `there is no method ${JSON.stringify(op)}`);
    await answer({ id, ok: (await run(params)) ?? null });
  } catch (error) {
    await answer({ id, error: fault(error) });
  }
}

await answer({ ready: { typescript: ts.version, node: process.version } });
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (line.trim() !== "") await handle(line);
  collectGivenUp();
  if (process.memoryUsage.rss() > most) process.exit(0);
}
// Contexts of esbuild would keep the process alive.
process.exit(0);
