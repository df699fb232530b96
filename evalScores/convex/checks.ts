// Checks: the test functions of a grader, with how each ended.
import type { Doc, Id } from "./_generated/dataModel";
import type { MutationCtx, QueryCtx } from "./_generated/server";
import { MAX_CHECKS } from "./limits";
import type { Check } from "./validators";

export function checksOf(ctx: QueryCtx, evalId: Id<"evals">): Promise<Doc<"checks">[]> {
  return ctx.db
    .query("checks")
    .withIndex("by_eval", (q) => q.eq("evalId", evalId))
    .take(MAX_CHECKS);
}

export async function addChecks(ctx: MutationCtx, of: Pick<Doc<"checks">, "runId" | "evalId" | "step">, checks: Check[]): Promise<void> {
  for (const [position, check] of checks.entries()) await ctx.db.insert("checks", { ...of, position, ...check });
}

export async function deleteChecks(ctx: MutationCtx, evalId: Id<"evals">): Promise<void> {
  for (const check of await checksOf(ctx, evalId)) await ctx.db.delete(check._id);
}
