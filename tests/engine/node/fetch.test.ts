/** A response whose body is read late is still whole. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import type { Engine } from "#core/engine.js";
import { proxiedFetch } from "#core/functions/fetch.js";
import { CallStreams } from "#core/functions/streams.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("garbage is collected between the head of a response and its body", async () => {
  const server = createServer((_, response) => response.end("all of it")).listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const engine = { network: null, allowedOrigins: new Set([origin]), cloudUrl: "http://localhost:1", siteUrl: "http://localhost:2" } as unknown as Engine;
  try {
    for (let stream = 1; stream <= 20; stream++) {
      const streams = new CallStreams();
      await proxiedFetch(engine, streams, { stream, url: origin, method: "GET", body: null });
      for (let i = 0; i < 5; i++) {
        collectGarbage();
        await turn();
      }
      assert.equal(Buffer.from((await streams.read(stream)) ?? "", "base64").toString(), "all of it");
      assert.equal(await streams.read(stream), null);
    }
  } finally {
    server.close();
  }
});
