import { anyApi } from "convex/server";
import { beforeEach, describe, expect, test } from "vitest";
import { answerUrl, apiUrl, clearTable, client, listTable, schemaOf, specOf } from "../../../grader";

beforeEach(async () => {
  await clearTable("notes");
});

describe("like the answer", () => {
  test.skipIf(answerUrl === null)("compare schema", async () => {
    expect(await schemaOf(apiUrl)).toEqual(await schemaOf(answerUrl as string));
  });

  test.skipIf(answerUrl === null)("compare function spec", async () => {
    expect(await specOf(apiUrl)).toEqual(await specOf(answerUrl as string));
  });
});

test("keeps notes apart by author", async () => {
  await client.mutation(anyApi.notes.add, { author: "ada", text: "one" });
  await client.mutation(anyApi.notes.add, { author: "bob", text: "two" });
  const found = await client.query(anyApi.notes.of, { author: "ada" });
  expect(found.map((note: { text: string }) => note.text)).toEqual(["one"]);
  expect(await listTable("notes")).toHaveLength(2);
});

test("refuses a note without text", async () => {
  await expect(client.mutation(anyApi.notes.add, { author: "ada" })).rejects.toThrow("ArgumentValidationError");
});
