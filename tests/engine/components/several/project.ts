import { ActionRetrier } from "@convex-dev/action-retrier";
import { Crons } from "@convex-dev/crons";
import { PersistentTextStreaming } from "@convex-dev/persistent-text-streaming";
import { WorkflowManager } from "@convex-dev/workflow";
import { v } from "convex/values";

import { components, internal } from "./_generated/api";
import { internalAction, internalMutation, internalQuery } from "./_generated/server";

export const retrier = new ActionRetrier(components.actionRetrier, { initialBackoffMs: 1000, base: 2, maxFailures: 3 });
export const crons = new Crons(components.crons);
export const streaming = new PersistentTextStreaming(components.persistentTextStreaming);
export const workflows = new WorkflowManager(components.workflow);

export const note = internalMutation({
  args: { text: v.string() },
  handler: async (ctx, { text }) => {
    await ctx.db.insert("notes", { text, at: Date.now() });
  },
});
export const count = internalQuery({
  args: { text: v.string() },
  handler: async (ctx, { text }) => (await ctx.db.query("notes").collect()).filter((row) => row.text === text).length,
});
export const flaky = internalAction({
  args: { name: v.string(), failures: v.number() },
  handler: async (ctx, { name, failures }): Promise<number> => {
    await ctx.runMutation(internal.project.note, { text: name });
    const tries: number = await ctx.runQuery(internal.project.count, { text: name });
    if (tries <= failures) throw new Error(`attempt ${tries}`);
    return tries;
  },
});
export const ended = internalMutation({
  args: { runId: v.string(), result: v.any() },
  handler: async (ctx, { result }) => {
    await ctx.db.insert("results", { result });
  },
});

export const trip = workflows.define({
  args: { name: v.string() },
  returns: v.string(),
  handler: async (step, { name }): Promise<string> => {
    await step.runMutation(internal.project.note, { text: `${name} sets out` });
    const [a, b]: number[] = await Promise.all([
      step.runAction(internal.project.flaky, { name: `${name} left`, failures: 0 }),
      step.runAction(internal.project.flaky, { name: `${name} right`, failures: 1 }, { retry: { maxAttempts: 3, initialBackoffMs: 1000, base: 2 } }),
    ]);
    await step.sleep(60_000);
    const where: unknown = await step.awaitEvent({ name: "arrival", validator: v.string() });
    await step.runMutation(internal.project.note, { text: `${name} is in ${where}` });
    return `${a}+${b} in ${where}`;
  },
});
