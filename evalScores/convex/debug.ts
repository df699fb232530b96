// Internal: everything about one cell, with the files behind it.
import { v, type Infer } from "convex/values";
import { internal } from "./_generated/api";
import type { Id } from "./_generated/dataModel";
import { internalAction, type ActionCtx } from "./_generated/server";
import { cellView, stepView } from "./evals";

const TASK_FILE = "TASK.txt";

const file = v.union(v.object({ path: v.string(), text: v.string() }), v.object({ path: v.string(), base64: v.string() }));
const debugInfo = v.object({
  eval: v.object({ ...cellView.fields, task: v.union(v.string(), v.null()), steps: v.array(stepView) }),
  outputFiles: v.array(file),
  evalSourceFiles: v.array(file),
});

export const getEvalDebugInfo = internalAction({
  args: { evalId: v.id("evals") },
  returns: debugInfo,
  handler: async (ctx, { evalId }): Promise<Infer<typeof debugInfo>> => {
    const found = await ctx.runQuery(internal.debugQueries.getEval, { evalId });
    const evalSourceFiles = await filesOf(ctx, found.sourceFile);
    const task = evalSourceFiles.find(({ path }) => path === TASK_FILE);
    return {
      eval: { ...found.eval, task: task !== undefined && "text" in task ? task.text : null },
      outputFiles: await filesOf(ctx, found.outputFile),
      evalSourceFiles,
    };
  },
});

/** The files of an archive; the return validator refuses what is not one. */
async function filesOf(ctx: ActionCtx, storageId: Id<"_storage"> | null): Promise<Infer<typeof file>[]> {
  const archive = storageId && (await ctx.storage.get(storageId));
  if (!archive) return [];
  const { files } = JSON.parse(await archive.text()) as { files: Infer<typeof file>[] };
  return files;
}
