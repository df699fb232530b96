/**
 * The gate of a network that a grader shares with the submission: `gate.mjs INWARD_SOCKET`, JSON lines as the other children.
 *
 * It is the first in its network. Outward (`serve {folder, ports}`) it opens the ports of the deployment, before anybody else can, and
 * passes connections on to the socket files of the core. Inward it connects whoever uses its own socket file to a port in here: the
 * first line names it. The core does so for the `fetch` of actions, so that they reach what the grader listens on. It ends when its
 * stdin closes.
 */

import { connect, createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";

import { Reach } from "../shared/reach.js";

const MAX_LINE = 8;
const NEW_LINE = 10;

function join(one: Socket, other: Socket): void {
  for (const [from, to] of [[one, other], [other, one]] as const) {
    from.on("error", () => to.destroy());
    from.on("close", () => to.destroy());
    from.pipe(to);
  }
}

function enter(outer: Socket): void {
  outer.on("error", () => outer.destroy());
  outer.once("readable", () => {
    const head: number[] = [];
    for (;;) {
      const byte = (outer.read(1) as Buffer | null)?.[0];
      if (byte === undefined || head.length > MAX_LINE) return void outer.destroy();
      if (byte === NEW_LINE) break;
      head.push(byte);
    }
    const port = Number(Buffer.from(head).toString("latin1"));
    join(outer, connect({ port, host: "localhost", allowHalfOpen: true }));
  });
}

const print = (line: unknown): boolean => process.stdout.write(`${JSON.stringify(line)}\n`);
await new Promise<void>((resolve) => createServer({ allowHalfOpen: true }, enter).listen(process.argv[2], resolve));
print({ ready: {} });
const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
lines.on("line", (line) => {
  const { id, params } = JSON.parse(line) as { id: number; params: { folder: string; ports: number[] } };
  void new Reach(params.folder).serve(params.ports).then(() => print({ id, ok: null }));
});
lines.on("close", () => process.exit(0));
