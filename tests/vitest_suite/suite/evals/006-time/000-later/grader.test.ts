import { anyApi } from "convex/server";
import { expect, test } from "vitest";
import { client, listTable, pollUntil } from "../../../grader";

test("orders are done in the end", async () => {
  await client.mutation(anyApi.orders.order, { what: "tea" });
  expect(await listTable("orders")).toMatchObject([{ what: "tea", done: false }]);
  const done = await pollUntil(async () => (await listTable("orders")).find((order) => order.done) ?? null, 3_000);
  expect(done).toMatchObject({ what: "tea" });
}, 60_000);

test("nobody else may finish one", async () => {
  await expect(client.mutation(anyApi.orders.finish, { id: "x" })).rejects.toThrow("Could not find public function");
});
