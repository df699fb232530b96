import * as workpools from "@convex-dev/workpool";
import { components, internal } from "./_generated/api";
import type { Id } from "./_generated/dataModel";
import type { MutationCtx } from "./_generated/server";

class PartnerPool extends workpools.Workpool {
  constructor(readonly open: number) {
    super(components.partnerPool, {
      maxParallelism: open,
      defaultRetryBehavior: { maxAttempts: 5, initialBackoffMs: 500, base: 2 },
    });
  }

  async tell(ctx: MutationCtx, orderIds: Id<"orders">[]) {
    return await this.enqueueActionBatch(ctx, internal.partner.tell, orderIds.map((orderId) => ({ orderId })), {
      retry: true,
    });
  }
}

export default new PartnerPool(4);
