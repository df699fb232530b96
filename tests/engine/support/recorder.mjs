/** A loopback address that passes requests on to a backend and remembers what was sent. JSON lines on stdin and stdout. */

import { createHash } from "node:crypto";
import { createServer, request as ask } from "node:http";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { brotliDecompressSync } from "node:zlib";

let target = "";
let seen = [];

const hash = (text) => createHash("sha256").update(text).digest("hex").slice(0, 16);

/** Sources by their hash, so that two pushes can be compared and shown; what belongs to one backend is left out. */
function shortened(key, value) {
  if (key === "adminKey" || key === "startPush" || key === "schemaChange") return undefined;
  if ((key === "source" || key === "sourceMap") && typeof value === "string") return `${value.length} ${hash(value)}`;
  return value;
}

function remember(request, body) {
  const decoded = request.headers["content-encoding"] === "br" ? brotliDecompressSync(body) : body;
  const text = decoded.toString("utf8");
  seen.push({ what: `${request.method} ${request.url.split("?")[0]}`, body: text === "" ? null : JSON.parse(text, shortened) });
}

const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks);
    remember(request, body);
    const { host: _host, connection: _connection, ...headers } = request.headers;
    const passed = ask(new URL(request.url, target), { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    passed.end(body);
  });
});

/** Some versions ask for the address of HTTP actions over a WebSocket. */
server.on("upgrade", (request, socket, head) => {
  const { hostname, port } = new URL(target);
  const backend = connect(Number(port), hostname, () => {
    const headers = request.rawHeaders.map((value, index) => (index % 2 === 0 ? `${value}: ` : `${value}\r\n`)).join("");
    backend.write(`${request.method} ${request.url} HTTP/1.1\r\n${headers}\r\n`);
    backend.write(head);
    backend.pipe(socket).pipe(backend);
  });
  for (const side of [backend, socket]) side.on("error", () => (backend.destroy(), socket.destroy()));
});

server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ ready: `http://127.0.0.1:${server.address().port}` }));
});

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.target !== undefined) target = message.target;
  console.log(JSON.stringify({ id: message.id, seen }));
  seen = [];
}
server.close();
server.closeAllConnections();
