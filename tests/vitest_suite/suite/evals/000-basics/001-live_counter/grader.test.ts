import { ConvexClient } from "convex/browser";
import { expect, test } from "vitest";
import { apiUrl } from "../../../grader";
import { api } from "./answer/convex/_generated/api.js";
import schema from "./answer/convex/schema";

test("subscribers see each value", async () => {
  const live = new ConvexClient(apiUrl);
  const seen: number[] = [];
  live.onUpdate(api.counter.value, {}, (value: number) => seen.push(value));
  await expect.poll(() => seen).toEqual([0]);
  await live.mutation(api.counter.increment, { by: 2 });
  await expect.poll(() => seen).toEqual([0, 2]);
  await live.mutation(api.counter.increment, { by: 5 });
  await expect.poll(() => seen).toEqual([0, 2, 7]);
  await live.close();
});

test("the answer has one table", () => {
  expect(Object.keys(schema.tables)).toEqual(["counter"]);
});
