import { DirectAggregate, TableAggregate } from "@convex-dev/aggregate";
import { customCtx, customMutation } from "convex-helpers/server/customFunctions";
import { Triggers } from "convex-helpers/server/triggers";
import { v } from "convex/values";

import { components } from "./_generated/api";
import type { DataModel } from "./_generated/dataModel";
import { mutation } from "./_generated/server";

export const direct = new DirectAggregate<{ Key: number; Id: string }>(components.aggregate);
export const byTitle = new DirectAggregate<{ Key: [string, number]; Id: string }>(components.byTitle);
export const perGame = new TableAggregate<{ Namespace: string; Key: number; DataModel: DataModel; TableName: "scores" }>(components.perGame, {
  namespace: (doc) => doc.game,
  sortKey: (doc) => -doc.score,
  sumValue: (doc) => doc.score,
});

const triggers = new Triggers<DataModel>();
triggers.register("scores", perGame.trigger());
const triggered = customMutation(mutation, customCtx(triggers.wrapDB));

const change = v.object({ op: v.string(), game: v.string(), name: v.string(), score: v.number() });

/** Writes to the table only; the trigger keeps the aggregate in step. */
export const write = triggered({
  args: { changes: v.array(change), fail: v.optional(v.boolean()) },
  handler: async (ctx, { changes, fail }) => {
    for (const { op, game, name, score } of changes) {
      const rows = await ctx.db.query("scores").collect();
      const row = rows.find((candidate) => candidate.game === game && candidate.name === name);
      if (op === "delete") {
        if (row) await ctx.db.delete(row._id);
      } else if (row) await ctx.db.patch(row._id, { score });
      else await ctx.db.insert("scores", { game, name, score });
    }
    if (fail) throw new Error("not this time");
  },
});
