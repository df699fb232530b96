import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { anyApi } from "convex/server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { client } from "../../../grader";

let server: Server;
let service: string;
const asked: (string | null)[] = [];

beforeAll(async () => {
  server = createServer((request, response) => {
    const city = new URL(request.url ?? "/", "http://localhost").searchParams.get("city");
    asked.push(city);
    response.writeHead(city === "Nowhere" ? 404 : 200, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ celsius: (city ?? "").length }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  service = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  server.close();
});

test("asks the service", async () => {
  expect(await client.action(anyApi.weather.temperature, { service, city: "São Paulo" })).toBe(9);
  expect(asked).toEqual(["São Paulo"]);
});

test("tells when the service does not know", async () => {
  await expect(client.action(anyApi.weather.temperature, { service, city: "Nowhere" })).rejects.toThrow();
});
