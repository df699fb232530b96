import { internalAction } from "./_generated/server";

export const refresh = internalAction({
  handler: async (_ctx, { display, days }: { display: string; days: number }) => {
    console.log(`refresh ${display} ${days}`);
    return null;
  },
});
