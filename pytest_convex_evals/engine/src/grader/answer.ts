/**
 * The way to the backend of the reference answer, for this process alone.
 *
 * Its ports are not opened in the network that the grader shares with the submission, which could ask the reference for the right
 * answers there. Connections to them go to socket files that only the grader's cage has.
 */

import { Socket } from "node:net";

import { socketPath } from "../shared/reach.js";

const LOOPBACK = new Set(["localhost", "127.0.0.1", "::1", "[::1]"]);

interface Target {
  port?: number | string;
  host?: string;
}

type Connect = (this: Socket, ...given: unknown[]) => Socket;

/** `where`: `folder:port,port`. */
export function leadInto(where: string): void {
  const [folder = "", listed = ""] = where.split(":");
  const ports = new Set(listed.split(",").map(Number));
  const connect = Socket.prototype.connect as Connect;
  const led: Connect = function (...given) {
    // `net.connect` hands on a list of options and callback.
    const list = (Array.isArray(given[0]) ? given[0] : given) as unknown[];
    const target = (typeof list[0] === "object" ? list[0] : { port: list[0], host: typeof list[1] === "string" ? list[1] : undefined }) as Target;
    if (!ports.has(Number(target.port)) || !LOOPBACK.has(target.host ?? "localhost")) return connect.apply(this, given);
    const callback = list.findLast((one) => typeof one === "function");
    const options = { path: socketPath(folder, Number(target.port)) };
    return connect.apply(this, callback === undefined ? [options] : [options, callback]);
  };
  Socket.prototype.connect = led as typeof Socket.prototype.connect;
}
