/// <reference types="vite/client" />
import { convexTest } from "convex-test";
import { expect, test } from "vitest";
import { api } from "./_generated/api";
import schema from "./schema";

const modules = import.meta.glob("./**/!(*.*.*)*.*s");

test("counts up", async () => {
  const t = convexTest(schema, modules);
  await t.mutation(api.counter.increment, { by: 3 });
  expect(await t.query(api.counter.value, {})).toBe(3);
});
