/** The part of `ws` that the engine uses; the package ships no types. */

declare module "ws" {
  import type { IncomingMessage } from "node:http";
  import type { Duplex } from "node:stream";

  export class WebSocket {
    send(data: string, written?: (error?: Error) => void): void;
    ping(): void;
    close(code?: number, reason?: string): void;
    terminate(): void;
    on(event: "message", listener: (data: Buffer, isBinary: boolean) => void): this;
    on(event: "close" | "pong", listener: () => void): this;
    on(event: "error", listener: (error: Error) => void): this;
  }
  export class WebSocketServer {
    readonly clients: Set<WebSocket>;
    constructor(options: { noServer: true; maxPayload?: number; perMessageDeflate?: boolean });
    handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, done: (socket: WebSocket) => void): void;
  }
}
