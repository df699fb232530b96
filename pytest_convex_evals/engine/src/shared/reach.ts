/**
 * The inner end of the way out of a cage: servers on the ports of the deployment and of the grader's fixture, inside the cage's own
 * network, that pass each connection on to a socket file. Nothing is enforced here: a file that is not there cannot be reached.
 */

import { createServer, Socket, type Server } from "node:net";

const connect = Socket.prototype.connect as (this: Socket, options: { path: string }) => Socket;

export function socketPath(folder: string, port: number): string {
  return `${folder}/${port}.sock`;
}

export class Reach {
  private readonly servers = new Map<number, Server>();

  constructor(private readonly folder: string) {}

  /** Replaces the ports that are served. */
  async serve(ports: readonly number[]): Promise<void> {
    for (const [port, server] of this.servers) {
      if (ports.includes(port)) continue;
      server.close();
      this.servers.delete(port);
    }
    await Promise.all(ports.filter((port) => !this.servers.has(port)).map((port) => this.open(port)));
  }

  private open(port: number): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (inner) => {
      const outer = new Socket({ allowHalfOpen: true });
      for (const [one, other] of [[inner, outer], [outer, inner]] as const) {
        one.on("error", () => other.destroy());
        one.on("close", () => other.destroy());
        one.pipe(other);
      }
      connect.call(outer, { path: socketPath(this.folder, port) });
    });
    this.servers.set(port, server);
    server.unref();
    return new Promise((resolve) => {
      server.once("error", () => resolve());
      server.listen({ port, host: "127.0.0.1" }, () => resolve());
    });
  }
}
