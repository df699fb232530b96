// Suites, which a fingerprint stands for, and the versions that people name among them.
import { paginationOptsValidator, paginationResultValidator } from "convex/server";
import { v } from "convex/values";
import type { Doc, Id } from "./_generated/dataModel";
import { query, type MutationCtx, type QueryCtx } from "./_generated/server";
import { refusal } from "./errors";
import { checkName, checkSize, checkUnique, cut, digest, splitEvalPath } from "./input";
import { MAX_SUITE } from "./limits";

type Suite = Pick<Doc<"suites">, "fingerprint" | "evals" | "parts">;
/** A fingerprint, and what it stands for where no run has told that yet. */
type Described = Pick<Suite, "fingerprint"> & Partial<Suite>;

export async function findSuite(ctx: QueryCtx, fingerprint: string): Promise<Doc<"suites">> {
  const suite = await suiteOf(ctx, fingerprint);
  if (suite === null) throw refusal("unknown_suite", `The fingerprint ${fingerprint} is unknown. Send its suite with ensureSuite first.`);
  return suite;
}

function suiteOf(ctx: QueryCtx, fingerprint: string): Promise<Doc<"suites"> | null> {
  return ctx.db
    .query("suites")
    .withIndex("by_fingerprint", (q) => q.eq("fingerprint", fingerprint))
    .unique();
}

export async function ensureSuite(ctx: MutationCtx, { fingerprint, evals, parts }: Suite): Promise<Id<"suites">> {
  checkName("fingerprint", fingerprint);
  if (evals.length === 0) throw refusal("invalid", "A suite needs at least one eval.");
  for (const [what, list] of [
    ["evals", evals],
    ["parts", parts],
  ] as const) {
    if (list.length > MAX_SUITE) throw refusal("too_large", `The suite has ${list.length} ${what}; at most ${MAX_SUITE} are allowed.`);
  }
  evals.forEach(splitEvalPath);
  checkUnique("evals of the suite", evals);
  checkUnique(
    "parts of the suite",
    parts.map(({ name }) => name),
  );
  const suite = { fingerprint, evals: evals.toSorted(), parts: parts.toSorted((a, b) => (a.name < b.name ? -1 : 1)) };
  checkSize("suite", suite);
  const known = await suiteOf(ctx, fingerprint);
  if (known === null) return await ctx.db.insert("suites", suite);
  const { evals: knownEvals, parts: knownParts } = known;
  if ((await digest({ fingerprint, evals: knownEvals, parts: knownParts })) !== (await digest(suite))) {
    throw refusal("conflict", `The fingerprint ${fingerprint} stands for other evals or parts. A fingerprint must cover what it names.`);
  }
  return known._id;
}

export async function mintVersion(
  ctx: MutationCtx,
  { name, notes, mintedBy, ...described }: Described & { name: string; notes?: string; mintedBy: string },
): Promise<Id<"benchmarkVersions">> {
  checkName("name of the version", name);
  const { fingerprint, evals, parts } = described;
  if (evals !== undefined && parts !== undefined) await ensureSuite(ctx, { fingerprint, evals, parts });
  const suite = await findSuite(ctx, fingerprint);
  const named = await findVersion(ctx, name);
  const known = await versionOf(ctx, suite._id);
  if (known !== null && known._id === named?._id) return known._id;
  if (known !== null) throw refusal("conflict", `The fingerprint ${fingerprint} is version ${known.name} already.`);
  if (named !== null) throw refusal("conflict", `Version ${name} is the fingerprint ${named.fingerprint}. Choose another name.`);
  return await ctx.db.insert("benchmarkVersions", { name, suiteId: suite._id, fingerprint, notes: notes && cut(notes), mintedBy });
}

export function findVersion(ctx: QueryCtx, name: string): Promise<Doc<"benchmarkVersions"> | null> {
  return ctx.db
    .query("benchmarkVersions")
    .withIndex("by_name", (q) => q.eq("name", name))
    .unique();
}

export function versionOf(ctx: QueryCtx, suiteId: Id<"suites">): Promise<Doc<"benchmarkVersions"> | null> {
  return ctx.db
    .query("benchmarkVersions")
    .withIndex("by_suite", (q) => q.eq("suiteId", suiteId))
    .unique();
}

export function newestVersion(ctx: QueryCtx): Promise<Doc<"benchmarkVersions"> | null> {
  return ctx.db.query("benchmarkVersions").order("desc").first();
}

export const versionChanges = v.object({
  previous: v.union(v.string(), v.null()),
  added: v.array(v.string()),
  removed: v.array(v.string()),
  changed: v.array(v.string()),
});

/** Which parts differ from those of the newest version. */
export async function changesSinceLast(ctx: QueryCtx, { fingerprint, parts: told }: Pick<Described, "fingerprint" | "parts">) {
  const parts = (await suiteOf(ctx, fingerprint))?.parts ?? told ?? (await findSuite(ctx, fingerprint)).parts;
  const last = await newestVersion(ctx);
  const before = new Map(last && (await findSuite(ctx, last.fingerprint)).parts.map(({ name, hash }) => [name, hash]));
  const after = new Map(parts.map(({ name, hash }) => [name, hash]));
  return {
    previous: last?.name ?? null,
    added: [...after.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !after.has(name)),
    changed: [...after].filter(([name, hash]) => before.has(name) && before.get(name) !== hash).map(([name]) => name),
  };
}

export const versionView = v.object({ name: v.string(), fingerprint: v.string(), mintedAt: v.number(), notes: v.optional(v.string()) });

export const list = query({
  args: { paginationOpts: paginationOptsValidator },
  returns: paginationResultValidator(versionView),
  handler: async (ctx, { paginationOpts }) => {
    const versions = await ctx.db.query("benchmarkVersions").order("desc").paginate(paginationOpts);
    const page = versions.page.map(({ name, fingerprint, notes, _creationTime }) => ({
      name,
      fingerprint,
      notes,
      mintedAt: _creationTime,
    }));
    return { ...versions, page };
  },
});
