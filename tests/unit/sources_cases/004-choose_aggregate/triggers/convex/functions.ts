import * as aggregates from "@convex-dev/aggregate";
import { customCtx, customMutation } from "convex-helpers/server/customFunctions";
import { Triggers } from "convex-helpers/server/triggers";
import * as api from "./_generated/api";
import type { DataModel } from "./_generated/dataModel";
import { mutation as rawMutation } from "./_generated/server";

export const scores = new aggregates.TableAggregate<{
  Key: number;
  DataModel: DataModel;
  TableName: "scores";
}>(api.components.scoresByPoints, { sortKey: (doc) => -doc.points });

const triggers = new Triggers<DataModel>();
triggers.register("scores", scores.trigger());

export const mutation = customMutation(rawMutation, customCtx(triggers.wrapDB));
