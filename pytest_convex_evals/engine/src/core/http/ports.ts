/** Loopback listeners: one port on both address families, never one that fetch refuses. */

import { randomInt } from "node:crypto";
import type { Server } from "node:http";

const FIRST = 20_000;
const LAST = 60_000;
const ATTEMPTS = 200;
/** Ports above the first that `fetch` blocks. None today; kept as the place to add them. */
const BLOCKED: ReadonlySet<number> = new Set();

function listen(server: Server, port: number, host: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException): void => {
      if (error.code === "EADDRINUSE") resolve(false);
      else if (host === "::1" && (error.code === "EADDRNOTAVAIL" || error.code === "EAFNOSUPPORT")) resolve(true);
      else reject(error);
    };
    server.once("error", failed);
    server.listen(port, host, () => {
      server.removeListener("error", failed);
      resolve(true);
    });
  });
}

/** Opens a server for both families on one port: the wanted one, or a random free one. */
export async function listenOnLoopback(make: () => Server, wanted: number | null): Promise<{ port: number; servers: Server[] }> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = wanted ?? randomInt(FIRST, LAST);
    if (BLOCKED.has(port)) continue;
    const servers = [make(), make()];
    const opened = (await listen(servers[0] as Server, port, "127.0.0.1")) && (await listen(servers[1] as Server, port, "::1"));
    if (opened) return { port, servers };
    for (const server of servers) server.close();
    if (wanted !== null) throw new Error(`port ${wanted} is in use`);
  }
  throw new Error("no free port");
}
