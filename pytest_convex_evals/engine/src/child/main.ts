/**
 * Stands in a grader's cage for a process that runs outside it: `child.mjs SOCKET WANTED`. Streams are passed on, and the end is that
 * of the process. When this one is killed, so is the other.
 */

import { connect } from "node:net";

import { onLines, writeLine, type Told } from "../shared/lines.js";

const [path = "", wanted = "{}"] = process.argv.slice(2);
const server = connect({ path });

function end(told: { code: number; signal: string | null }): void {
  server.destroy();
  if (told.signal !== null) process.kill(process.pid, told.signal as NodeJS.Signals);
  process.exitCode = told.code;
  process.stdin.destroy();
}

server.on("error", (error) => {
  process.stderr.write(`the process could not be started: ${error.message}\n`);
  end({ code: 126, signal: null });
});
server.on("close", () => process.stdin.destroy());
onLines<Told>(server, (told) => {
  if ("out" in told) process.stdout.write(Buffer.from(told.out, "base64"));
  else if ("err" in told) process.stderr.write(Buffer.from(told.err, "base64"));
  else end(told);
});
server.write(`${wanted}\n`);
process.stdin.on("data", (chunk: Buffer) => writeLine(server, { in: chunk.toString("base64") }));
process.stdin.on("end", () => writeLine(server, { in: null }));
process.stdin.on("error", () => undefined);
