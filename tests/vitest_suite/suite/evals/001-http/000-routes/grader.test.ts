import { expect, test } from "vitest";
import { siteUrl } from "../../../grader";

test("echoes", async () => {
  const answer = await fetch(`${siteUrl}/echo`, { method: "POST", body: "hello" });
  expect([answer.status, answer.headers.get("x-kind"), await answer.text()]).toEqual([201, "echo", "hello"]);
});

test("serves what is below the prefix", async () => {
  expect(await (await fetch(`${siteUrl}/files/a/b.txt`)).text()).toBe("a/b.txt");
});

test("knows no other method", async () => {
  expect((await fetch(`${siteUrl}/echo`)).status).toBe(404);
});
