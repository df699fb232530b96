import { expect, test } from "vitest";
import { api } from "./_generated/api";
import { backend, only, PASSED, refused, rows, token, wholeRun, type Backend } from "./test.setup";

const gpt = { token, slug: "gpt-5", displayName: "GPT-5", provider: "openai" };
const ensure = async (t: Backend, changes: object = {}) => (await t.mutation(api.admin.ensureModel, { ...gpt, ...changes })).modelId;

test("a model is made once", async () => {
  const t = await backend();
  const { firstSeenAt } = await only(rows(t, "models"));
  expect(await ensure(t)).toBe(await ensure(t, { displayName: "Another name" }));
  expect(await only(rows(t, "models"))).toMatchObject({ slug: "gpt-5", displayName: "GPT-5", firstSeenAt });
});

test("a renamed model keeps its identity, and its old slug still leads to it", async () => {
  const t = await backend();
  await wholeRun(t, "before", [PASSED, PASSED, PASSED, PASSED]);
  const { _id } = await only(rows(t, "models"));
  const renamed = { slug: "openai/gpt-5", displayName: "GPT-5 (2025)", formerSlugs: ["gpt-5"] };
  for (let time = 0; time < 2; time++) expect(await ensure(t, renamed)).toBe(_id);
  expect(await ensure(t)).toBe(_id);
  await wholeRun(t, "after", [PASSED, PASSED, PASSED, PASSED], { model: "openai/gpt-5" });
  const { rows: board } = await t.query(api.modelScores.leaderboard, {});
  expect(board.map(({ model, runs }) => [model.slug, model.displayName, runs])).toEqual([["openai/gpt-5", "GPT-5 (2025)", 2]]);
});

test("models with results of their own are not made one, and built-in submitters are no models", async () => {
  const t = await backend();
  await ensure(t, { slug: "o3", displayName: "o3" });
  expect((await refused(ensure(t, { slug: "o4", formerSlugs: ["gpt-5", "o3"] }))).code).toBe("conflict");
  expect((await refused(ensure(t, { slug: "reference" }))).code).toBe("not_a_model");
  expect((await refused(ensure(t, { slug: " " }))).code).toBe("invalid");
  const { page } = await t.query(api.models.list, { paginationOpts: { numItems: 5, cursor: null } });
  expect(page.map(({ slug }) => slug)).toEqual(["o3", "gpt-5"]);
});
