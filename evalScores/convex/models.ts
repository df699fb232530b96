// Models have an identity that survives renames: every slug that one ever had leads to it.
import { paginationOptsValidator, paginationResultValidator } from "convex/server";
import { v } from "convex/values";
import type { Doc, Id } from "./_generated/dataModel";
import { query, type MutationCtx, type QueryCtx } from "./_generated/server";
import { refusal } from "./errors";
import { checkName, checkUnique } from "./input";

const BUILT_IN = /^(reference|wrong|empty|replay)(:|$)/;
const MAX_FORMER_SLUGS = 50;

export const modelView = v.object({ slug: v.string(), displayName: v.string(), provider: v.string(), firstSeenAt: v.number() });

export function viewModel({ slug, displayName, provider, firstSeenAt }: Doc<"models">) {
  return { slug, displayName, provider, firstSeenAt };
}

export async function findModel(ctx: QueryCtx, slug: string): Promise<Doc<"models"> | null> {
  const known = await ctx.db
    .query("modelSlugs")
    .withIndex("by_slug", (q) => q.eq("slug", slug))
    .unique();
  return known && (await ctx.db.get(known.modelId));
}

type Described = { slug: string; displayName: string; provider: string; formerSlugs?: string[] };

/** Makes the model, or gives the one that is known under its slug or a former one; a new slug becomes the current one. */
export async function ensureModel(ctx: MutationCtx, { formerSlugs = [], ...described }: Described): Promise<Id<"models">> {
  for (const [field, value] of Object.entries(described)) checkName(`${field} of the model`, value);
  const slugs = [described.slug, ...formerSlugs];
  for (const slug of slugs) refuseBuiltIn(slug);
  if (formerSlugs.length > MAX_FORMER_SLUGS) throw refusal("too_large", `A model may have at most ${MAX_FORMER_SLUGS} former slugs.`);
  checkUnique("slugs of the model", slugs);

  const found = await Promise.all(slugs.map((slug) => findModel(ctx, slug)));
  const known = found.filter((model) => model !== null);
  const [first] = known;
  const other = known.find((model) => model._id !== first?._id);
  if (first && other) throw refusal("conflict", `${first.slug} and ${other.slug} have results of their own: they cannot be one model.`);

  const modelId = first?._id ?? (await ctx.db.insert("models", { ...described, firstSeenAt: Date.now() }));
  if (first && found[0] === null) await ctx.db.patch(modelId, described);
  for (const [index, slug] of slugs.entries()) {
    if (found[index] === null) await ctx.db.insert("modelSlugs", { slug, modelId });
  }
  return modelId;
}

export function refuseBuiltIn(slug: string): void {
  if (BUILT_IN.test(slug)) throw refusal("not_a_model", `${slug} is a built-in submitter; only results of models are kept.`);
}

export const list = query({
  args: { paginationOpts: paginationOptsValidator },
  returns: paginationResultValidator(modelView),
  handler: async (ctx, { paginationOpts }) => {
    const models = await ctx.db.query("models").order("desc").paginate(paginationOpts);
    return { ...models, page: models.page.map(viewModel) };
  },
});
