// Archives of files, stored once per content.
import { v } from "convex/values";
import { internal } from "./_generated/api";
import type { Doc, Id } from "./_generated/dataModel";
import { internalMutation, type MutationCtx, type QueryCtx } from "./_generated/server";
import { refusal } from "./errors";
import { checkCount } from "./input";
import { MAX_ASSET_BYTES, ORPHAN_AGE } from "./limits";

const SWEEP_BATCH = 100;

function assetOf(ctx: QueryCtx, sha256: string): Promise<Doc<"assets"> | null> {
  return ctx.db
    .query("assets")
    .withIndex("by_sha256", (q) => q.eq("sha256", sha256))
    .unique();
}

export async function findAsset(ctx: QueryCtx, sha256: string): Promise<Id<"assets">> {
  const asset = await assetOf(ctx, sha256);
  if (asset === null) throw refusal("unknown_asset", `There is no file with the hash ${sha256}. Upload and register it first.`);
  return asset._id;
}

/** Where to upload a file, unless its content is here already. */
export async function prepareUpload(ctx: MutationCtx, sha256: string, size: number) {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw refusal("invalid", `${JSON.stringify(sha256)} is not a SHA-256 in lower-case hex.`);
  checkCount("size of the file", size, 1);
  checkFileSize(size);
  if ((await assetOf(ctx, sha256)) !== null) return { stored: true as const };
  return { stored: false as const, uploadUrl: await ctx.storage.generateUploadUrl() };
}

/** Makes an uploaded file known by its content; a second copy is dropped. */
export async function registerAsset(ctx: MutationCtx, sha256: string, storageId: Id<"_storage">): Promise<void> {
  const known = await assetOf(ctx, sha256);
  if (known?.storageId === storageId) return;
  const file = await ctx.db.system.get(storageId);
  if (file === null) {
    if (known !== null) return;
    throw refusal("unknown_asset", `The uploaded file ${storageId} is not there any more. Upload it again.`);
  }
  const owner = await ctx.db
    .query("assets")
    .withIndex("by_storage", (q) => q.eq("storageId", storageId))
    .unique();
  if (owner !== null) throw refusal("conflict", `The uploaded file ${storageId} is registered under another hash.`);
  if (hexOf(file.sha256) !== sha256) throw refusal("invalid", `The uploaded file has the hash ${hexOf(file.sha256)}, not ${sha256}.`);
  checkFileSize(file.size);
  if (known === null) await ctx.db.insert("assets", { sha256, storageId, size: file.size });
  else await ctx.storage.delete(storageId);
}

function checkFileSize(size: number): void {
  if (size > MAX_ASSET_BYTES) throw refusal("too_large", `The file has ${size} bytes; at most ${MAX_ASSET_BYTES} are allowed.`);
}

/** Storage tells hashes in base64, or in hex. */
function hexOf(hash: string): string {
  if (/^[0-9a-f]{64}$/.test(hash)) return hash;
  return Array.from(atob(hash), (char) => char.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}

/** Removes an archive that no cell refers to any more. */
export async function releaseAsset(ctx: MutationCtx, assetId: Id<"assets">): Promise<void> {
  const asset = await ctx.db.get(assetId);
  if (asset === null || (await isUsed(ctx, assetId))) return;
  await ctx.db.delete(assetId);
  await ctx.storage.delete(asset.storageId);
}

async function isUsed(ctx: QueryCtx, assetId: Id<"assets">): Promise<boolean> {
  const asOutput = ctx.db.query("evals").withIndex("by_output", (q) => q.eq("outputId", assetId));
  const asSource = ctx.db.query("evals").withIndex("by_source", (q) => q.eq("sourceId", assetId));
  return (await asOutput.first()) !== null || (await asSource.first()) !== null;
}

/** Looks once at each file, a day after its upload, and removes what nothing refers to. */
export const sweepFiles = internalMutation({
  args: {},
  returns: v.null(),
  handler: async (ctx) => {
    const progress = await ctx.db.query("fileSweeps").first();
    const until = Date.now() - ORPHAN_AGE;
    const files = await ctx.db.system
      .query("_storage")
      .withIndex("by_creation_time", (q) => q.gte("_creationTime", progress?.sweptUntil ?? 0).lt("_creationTime", until))
      .take(SWEEP_BATCH);
    for (const file of files) {
      const asset = await ctx.db
        .query("assets")
        .withIndex("by_storage", (q) => q.eq("storageId", file._id))
        .unique();
      if (asset === null) await ctx.storage.delete(file._id);
      else await releaseAsset(ctx, asset._id);
    }
    const last = files.length === SWEEP_BATCH ? files.at(-1) : undefined;
    const sweptUntil = last?._creationTime ?? until;
    if (progress === null) await ctx.db.insert("fileSweeps", { sweptUntil });
    else await ctx.db.patch(progress._id, { sweptUntil: Math.max(sweptUntil, progress.sweptUntil) });
    if (last !== undefined) await ctx.scheduler.runAfter(0, internal.assets.sweepFiles, {});
    return null;
  },
});
