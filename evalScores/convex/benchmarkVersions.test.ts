import { expect, test } from "vitest";
import { api } from "./_generated/api";
import { addSuite, addToken, backend, EVALS, refused, rows, snapshot, token } from "./test.setup";

const parts = (...hashes: [string, string][]) => hashes.map(([name, hash]) => ({ name, hash }));

test("a fingerprint stands for one suite, in whatever order it is told", async () => {
  const t = await backend();
  await addSuite(t, "f1", EVALS.toReversed());
  expect(await rows(t, "suites")).toHaveLength(1);
  expect((await refused(addSuite(t, "f1", EVALS.slice(1)))).code).toBe("conflict");
  expect((await refused(addSuite(t, "f1", EVALS, parts(["prompt", "other"])))).code).toBe("conflict");
});

test("broken suites are refused", async () => {
  const t = await backend();
  for (const evals of [[], ["no-category"], ["a/b/c"], ["a/b", "a/b"]])
    expect((await refused(addSuite(t, "f", evals))).code).toBe("invalid");
  const many = Array.from({ length: 4_001 }, (_, n) => `a/${n}`);
  expect((await refused(addSuite(t, "f", many))).code).toBe("too_large");
  const long = Array.from({ length: 3_000 }, (_, n) => ({ name: `${n}`.padEnd(400, "x"), hash: "1" }));
  expect((await refused(addSuite(t, "f", EVALS, long))).code).toBe("too_large");
});

test("minting names a fingerprint once", async () => {
  const t = await backend();
  await addSuite(t, "f2");
  const mint = async (fingerprint: string, name: string) =>
    (await t.mutation(api.admin.mintVersion, { token, fingerprint, name })).versionId;
  expect(await mint("f1", "v1")).toBe(await mint("f1", "v1"));
  expect((await refused(mint("f1", "v2"))).code).toBe("conflict");
  expect((await refused(mint("f2", "v1"))).code).toBe("conflict");
  expect((await refused(mint("f3", "v3"))).code).toBe("unknown_suite");
  await mint("f2", "v2");
  const { page } = await t.query(api.benchmarkVersions.list, { paginationOpts: { numItems: 5, cursor: null } });
  expect(page.map(({ name, fingerprint }) => [name, fingerprint])).toEqual([
    ["v2", "f2"],
    ["v1", "f1"],
  ]);
});

test("before minting one sees what changed since the last version", async () => {
  const t = await backend();
  await addSuite(t, "old", EVALS, parts(["a", "1"], ["b", "1"], ["c", "1"]));
  await addSuite(t, "new", EVALS, parts(["b", "1"], ["c", "2"], ["d", "1"]));
  const preview = () => t.query(api.admin.previewVersion, { token, fingerprint: "new" });
  expect(await preview()).toEqual({ previous: null, added: ["b", "c", "d"], removed: [], changed: [] });
  await t.mutation(api.admin.mintVersion, { token, fingerprint: "old", name: "v1" });
  expect(await preview()).toEqual({ previous: "v1", added: ["d"], removed: ["a"], changed: ["c"] });
});

test("a suite that no run has reported is minted with one scope, and a look at it leaves nothing", async () => {
  const t = await backend();
  await addToken(t, "minter", ["mint"]);
  const suite = { fingerprint: "fresh", parts: parts(["a", "1"]) };
  const before = await snapshot(t);
  expect(await t.query(api.admin.previewVersion, { token: "minter", ...suite })).toMatchObject({ previous: null, added: ["a"] });
  expect((await refused(t.query(api.admin.previewVersion, { token: "minter", fingerprint: "fresh" }))).code).toBe("unknown_suite");
  expect(await snapshot(t)).toEqual(before);
  const mint = () => t.mutation(api.admin.mintVersion, { token: "minter", ...suite, evals: EVALS, name: "v1" });
  expect(await mint()).toEqual(await mint());
  expect(await rows(t, "suites")).toMatchObject([{ fingerprint: "f1" }, { fingerprint: "fresh", evals: EVALS }]);
});
