import { anyApi } from "convex/server";
import { expect, test } from "vitest";
import { answerUrl, apiUrl, client, specOf } from "../../../grader";

test("two in a minute, for each author", async () => {
  const answers = [];
  for (const author of ["ada", "ada", "ada", "bob"]) answers.push(await client.mutation(anyApi.comments.post, { author }));
  expect(answers).toEqual([true, true, false, true]);
});

test.skipIf(!process.env.CONVEX_ANSWER_PORT)("compare function spec", async () => {
  expect(await specOf(apiUrl)).toEqual(await specOf(answerUrl as string));
});
