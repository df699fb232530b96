"use node";

import { get } from "node:http";
import { v } from "convex/values";
import { action } from "./_generated/server";

export const digestOf = action({
  args: { url: v.string() },
  handler: async (_ctx, { url }): Promise<string> => {
    const { createHash } = await import("node:crypto");
    const hash = createHash("md5");
    await new Promise<void>((resolve, reject) => {
      get(url, (answer) => {
        answer.on("data", (chunk: Buffer) => hash.update(chunk));
        answer.on("end", resolve);
      }).on("error", reject);
    });
    return hash.digest("hex");
  },
});
