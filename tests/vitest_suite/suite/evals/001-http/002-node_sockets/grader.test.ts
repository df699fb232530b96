import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { anyApi } from "convex/server";
import { expect, test } from "vitest";
import { client } from "../../../grader";

test("reads the file by a socket of its own", async () => {
  const body = "x".repeat(100_000);
  const server = createServer((_request, response) => response.end(body));
  await new Promise<void>((resolve) => server.listen(0, resolve));
  const { port } = server.address() as AddressInfo;
  try {
    const digest = await client.action(anyApi.digest.digestOf, { url: `http://localhost:${port}/file` });
    expect(digest).toBe(createHash("sha256").update(body).digest("hex"));
  } finally {
    server.close();
  }
});
