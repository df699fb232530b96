import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { api, internal } from "./_generated/api";
import type { Id } from "./_generated/dataModel";
import { sha256Hex } from "./input";
import { backend, EVALS, finish, only, PASSED, refused, result, rows, startRun, store, token, upload, type Backend } from "./test.setup";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const DAY = 24 * 3_600_000;
const files = (t: Backend) => t.run((ctx) => ctx.db.system.query("_storage").collect());
const register = (t: Backend, sha256: string, storageId: Id<"_storage">) =>
  t.mutation(api.admin.registerAsset, { token, sha256, storageId });
const prepare = (t: Backend, sha256: string, size = 3) => t.mutation(api.admin.prepareUpload, { token, sha256, size });

test("a content is stored once; second copies and repeats leave nothing behind", async () => {
  const t = await backend();
  const sha256 = await sha256Hex("abc");
  expect(await prepare(t, sha256)).toMatchObject({ stored: false, uploadUrl: expect.any(String) });
  const [first, second] = [await store(t, "abc"), await store(t, "abc")];
  await register(t, sha256, first);
  for (let time = 0; time < 2; time++) await register(t, sha256, second);
  await register(t, sha256, first);
  expect(await prepare(t, sha256)).toEqual({ stored: true });
  expect(await only(rows(t, "assets"))).toMatchObject({ sha256, storageId: first, size: 3 });
  expect(await files(t)).toHaveLength(1);
});

test("a file is registered under its own hash only", async () => {
  const t = await backend();
  const storageId = await store(t, "abc");
  expect((await refused(register(t, await sha256Hex("other"), storageId))).code).toBe("invalid");
  await register(t, await sha256Hex("abc"), storageId);
  expect((await refused(register(t, await sha256Hex("other"), storageId))).code).toBe("conflict");
  const gone = await store(t, "gone");
  await t.run((ctx) => ctx.storage.delete(gone));
  expect((await refused(register(t, await sha256Hex("gone"), gone))).code).toBe("unknown_asset");
});

test("an archive over the limit is refused before and after its upload", async () => {
  const t = await backend();
  const text = "x".repeat(5 * 1024 * 1024 + 1);
  const sha256 = await sha256Hex(text);
  expect((await refused(prepare(t, sha256, text.length))).code).toBe("too_large");
  expect((await refused(register(t, sha256, await store(t, text)))).code).toBe("too_large");
  expect((await refused(prepare(t, "not a hash"))).code).toBe("invalid");
  expect((await refused(prepare(t, sha256, 0))).code).toBe("invalid");
});

test("files that nothing refers to go after a day, in batches", async () => {
  const t = await backend();
  const output = await upload(t, [{ path: "kept", text: "1" }]);
  const unused = await upload(t, [{ path: "unused", text: "1" }]);
  await startRun(t, "r");
  await finish(t, "r", EVALS[0] ?? "", result(PASSED, { output }));
  for (let n = 0; n < 150; n++) {
    vi.advanceTimersByTime(10);
    await store(t, `never registered ${n}`);
  }
  const sweep = async () => {
    await t.mutation(internal.assets.sweepFiles, {});
    await t.finishAllScheduledFunctions(vi.runAllTimers);
  };
  await sweep();
  expect(await files(t)).toHaveLength(152);
  vi.advanceTimersByTime(DAY + 1);
  await store(t, "still young");
  await sweep();
  expect(await files(t)).toHaveLength(2);
  expect(await only(rows(t, "assets"))).toMatchObject({ sha256: output });
  expect((await refused(finish(t, "r", EVALS[1] ?? "", result(PASSED, { output: unused })))).code).toBe("unknown_asset");
  vi.advanceTimersByTime(DAY + 1);
  await sweep();
  expect(await files(t)).toHaveLength(1);
});
