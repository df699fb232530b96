import { internalMutation } from "./_generated/server";

export const sweep = internalMutation({ args: {}, handler: async () => null });
