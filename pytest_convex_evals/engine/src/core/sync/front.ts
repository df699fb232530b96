/** Accepts WebSocket connections of the sync protocol. */

import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";

import { WebSocketServer } from "ws";

import type { Engine } from "../engine.js";
import { SyncConnection } from "./connection.js";
import { MutationMemory } from "./memory.js";

const MAX_FRAME = 64 * 1024 * 1024;

export class SyncFront {
  private readonly server = new WebSocketServer({ noServer: true, maxPayload: MAX_FRAME, perMessageDeflate: false });
  private readonly memory: MutationMemory;

  constructor(private readonly engine: Engine) {
    this.memory = new MutationMemory(engine);
  }

  dropAll(): void {
    for (const client of this.server.clients) client.terminate();
  }

  attach(server: Server): void {
    server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on("error", () => socket.destroy());
      const match = /^\/api\/(?:([^/]+)\/)?sync(?:\?.*)?$/.exec(request.url ?? "");
      if (match === null) {
        socket.end("HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n");
        return;
      }
      this.server.handleUpgrade(request, socket, head, (webSocket) => {
        const facts = { ip: request.socket.remoteAddress ?? null, userAgent: request.headers["user-agent"] ?? null };
        new SyncConnection(this.engine, webSocket, this.memory, facts, match[1] ?? "");
      });
    });
  }
}
