// Steps of a cell, in their order, and through them the checks.
import type { Doc, Id } from "./_generated/dataModel";
import type { MutationCtx, QueryCtx } from "./_generated/server";
import { addChecks, checksOf, deleteChecks } from "./checks";
import { refusal } from "./errors";
import { checkAmount, checkName, digest, TextBudget } from "./input";
import { MAX_CHECKS } from "./limits";
import type { Step } from "./validators";

const ORDER: Step["name"][] = ["filesystem", "install", "deploy", "tsc", "eslint", "tests"];

/** The steps as they are kept, or a refusal. */
export function acceptSteps(steps: Step[], budget: TextBudget): Step[] {
  const checks = steps.flatMap((step) => step.checks);
  if (checks.length > MAX_CHECKS) throw refusal("too_large", `The cell has ${checks.length} checks; at most ${MAX_CHECKS} are allowed.`);
  if (steps.some(({ name, checks }) => name !== "tests" && checks.length > 0)) throw refusal("invalid", "Only the step tests has checks.");
  if (new Set(steps.map(({ name }) => name)).size < steps.length) throw refusal("invalid", "A step is there twice.");
  return steps.map((step) => {
    checkAmount(`duration of ${step.name}`, step.durationMs);
    return {
      ...step,
      verdict: budget.cutReason(step.verdict),
      checks: step.checks.map((check) => {
        checkName("name of a check", check.name);
        checkAmount(`duration of ${check.name}`, check.durationMs);
        return { ...check, verdict: budget.cutReason(check.verdict), detail: budget.cut(check.detail) };
      }),
    };
  });
}

/** In their order; null when none failed. */
export function failedStep(steps: Pick<Step, "name" | "verdict">[]): Step["name"] | null {
  const failed = steps.filter(({ verdict }) => verdict.kind === "failed").map(({ name }) => ORDER.indexOf(name));
  return failed.length === 0 ? null : (ORDER[Math.min(...failed)] ?? null);
}

/** Whether a step that is there is another one than the one that was sent. */
export async function hasChanged(ctx: QueryCtx, { evalId, name, verdict, durationMs }: Doc<"steps">, sent: Step): Promise<boolean> {
  const found = (await checksOf(ctx, evalId)).filter(({ step }) => step === name);
  const checks = found.map(({ name, verdict, durationMs, detail }) => ({ name, verdict, durationMs, detail }));
  return (await digest({ name, verdict, durationMs, checks })) !== (await digest(sent));
}

export function stepsOf(ctx: QueryCtx, evalId: Id<"evals">): Promise<Doc<"steps">[]> {
  return ctx.db
    .query("steps")
    .withIndex("by_eval", (q) => q.eq("evalId", evalId))
    .take(ORDER.length);
}

export async function addStep(ctx: MutationCtx, { _id: evalId, runId }: Doc<"evals">, { checks, ...step }: Step): Promise<void> {
  await ctx.db.insert("steps", { runId, evalId, position: ORDER.indexOf(step.name), ...step });
  await addChecks(ctx, { runId, evalId, step: step.name }, checks);
}

/** Nothing is left of an earlier attempt. */
export async function clearSteps(ctx: MutationCtx, evalId: Id<"evals">): Promise<void> {
  for (const step of await stepsOf(ctx, evalId)) await ctx.db.delete(step._id);
  await deleteChecks(ctx, evalId);
}
