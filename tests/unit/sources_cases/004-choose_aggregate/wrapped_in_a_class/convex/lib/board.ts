import { DirectAggregate as Index } from "@convex-dev/aggregate";
import { components } from "../_generated/api";
import type { MutationCtx, QueryCtx } from "../_generated/server";

type Entry = { player: string; points: number };

class Board {
  private readonly index = new Index<{ Key: number; Id: string }>(components.aggregate);

  async put(ctx: MutationCtx, before: Entry | null, after: Entry | null) {
    if (before !== null && after !== null) {
      return await this.index.replaceOrInsert(ctx, this.item(before), this.item(after));
    }
    if (after !== null) return await this.index.insertIfDoesNotExist(ctx, this.item(after));
    if (before !== null) return await this.index.deleteIfExists(ctx, this.item(before));
  }

  async ahead(ctx: QueryCtx, points: number) {
    const [ahead] = await this.index.countBatch(ctx, [{ bounds: { lower: { key: points, inclusive: false } } }]);
    return ahead ?? 0;
  }

  get size() {
    return (ctx: QueryCtx) => this.index.count(ctx, {});
  }

  private item(entry: Entry) {
    return { key: entry.points, id: entry.player };
  }
}

export const board = new Board();
