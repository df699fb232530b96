/** What this process can connect to: the deployment, and only while it is online. */
import { Socket } from "node:net";

import { Reach } from "../shared/reach.js";

const LOOPBACK: ReadonlySet<string> = new Set(["127.0.0.1", "::1", "localhost"]);

interface Target {
  host?: string;
  port?: number | string;
  path?: string;
}

let reach: Reach | undefined;
const allowed = new Set<number>();
let waiting: (() => void)[] | undefined;

/** Connections may be made to these ports of the loopback interface. */
export function allowPorts(ports: readonly number[]): void {
  allowed.clear();
  for (const port of ports) allowed.add(port);
}

/** The folder of the sockets that lead out of the cage; not needed when no cage cuts the network. */
export function leadOut(folder: string): void {
  reach = new Reach(folder);
}

/** Where the cage has a network of its own, these ports of it lead to the deployment. */
export async function openWays(ports: readonly number[]): Promise<void> {
  await reach?.serve(ports);
}

/** Offline, connections stay pending until the network is back. */
export function setOnline(online: boolean): void {
  const pending = online ? waiting : undefined;
  waiting = online ? undefined : (waiting ?? []);
  for (const connect of pending ?? []) connect();
}

/** All sockets of Node pass here, those of fetch and of WebSocket too. */
export function guardSockets(): void {
  const connect = Socket.prototype.connect as (this: Socket, ...args: unknown[]) => Socket;
  function guarded(this: Socket, ...args: unknown[]): Socket {
    const { host, port, path } = targetOf(args);
    if (path !== undefined || !LOOPBACK.has(host ?? "localhost") || !allowed.has(Number(port))) {
      const place = path ?? `${host ?? "localhost"}:${String(port)}`;
      setImmediate(() => this.destroy(new Error(`${place} cannot be reached from here`)));
      return this;
    }
    if (waiting === undefined) return connect.apply(this, args);
    waiting.push(() => void (this.destroyed || connect.apply(this, args)));
    return this;
  }
  Socket.prototype.connect = guarded as typeof Socket.prototype.connect;
}

/** The forms that `connect` is called in: options, port and host, or both already sorted out. */
function targetOf(args: readonly unknown[]): Target {
  const first = Array.isArray(args[0]) ? (args[0] as unknown[])[0] : args[0];
  if (typeof first === "object" && first !== null) return first as Target;
  if (typeof first === "string" && Number.isNaN(Number(first))) return { path: first };
  return { port: first as number, ...(typeof args[1] === "string" ? { host: args[1] } : {}) };
}
