import { anyApi } from "convex/server";
import { expect, test } from "vitest";
import { asAdmin, client, ADMIN_KEY, apiUrl } from "../../../grader";

const ada = { subject: "ada", issuer: "https://example.com", name: "Ada" };

test("knows who asks", async () => {
  const admin = asAdmin(undefined, ada);
  expect(await admin.query(anyApi.who.me, {})).toBe("Ada");
  expect(await admin.mutation(anyApi.who.secret, {})).toBe("42");
  await admin.close();
  expect(await client.query(anyApi.who.me, {})).toBeNull();
});

test("tells strangers nothing", async () => {
  await expect(client.mutation(anyApi.who.secret, {})).rejects.toThrow();
});

test("the key works over HTTP, too", async () => {
  const body = JSON.stringify({ path: "who:me", args: {}, format: "json" });
  const identity = Buffer.from(JSON.stringify(ada)).toString("base64");
  const headers = { "Content-Type": "application/json", Authorization: `Convex ${ADMIN_KEY}:${identity}` };
  const answer = await fetch(`${apiUrl}/api/query`, { method: "POST", headers, body });
  expect(await answer.json()).toMatchObject({ status: "success", value: "Ada" });
});
