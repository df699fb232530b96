/**
 * The way out of a cage that has a network of its own: one socket file for each port of the loopback interface that may be reached.
 *
 * A caged program listens on the same ports inside and passes connections on to these files (`shared/reach.ts`). What it can reach is
 * decided here, outside, by which files there are.
 */

import { rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";

import { socketPath } from "../../shared/reach.js";

const MAX_CONNECTIONS = 256;

interface Way {
  server: Server;
  open: Set<Socket>;
}

export class Relay {
  private readonly ways = new Map<number, Way>();

  constructor(private readonly folder: string) {}

  /** Replaces the ports that may be reached; connections to others end. */
  async allow(ports: readonly number[]): Promise<void> {
    for (const [port, way] of this.ways) {
      if (!ports.includes(port)) this.shut(port, way);
    }
    await Promise.all(ports.filter((port) => !this.ways.has(port)).map((port) => this.open(port)));
  }

  close(): void {
    for (const [port, way] of this.ways) this.shut(port, way);
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async open(port: number): Promise<void> {
    const open = new Set<Socket>();
    const server = createServer({ allowHalfOpen: true }, (inner) => {
      const outer = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      for (const [one, other] of [[inner, outer], [outer, inner]] as const) {
        open.add(one);
        one.on("error", () => other.destroy());
        one.on("close", () => {
          open.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
    server.maxConnections = MAX_CONNECTIONS;
    this.ways.set(port, { server, open });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(socketPath(this.folder, port), resolve);
    });
  }

  private shut(port: number, { server, open }: Way): void {
    this.ways.delete(port);
    server.close();
    for (const socket of open) socket.destroy();
  }
}
