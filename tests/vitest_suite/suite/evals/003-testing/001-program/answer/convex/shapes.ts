import { v } from "convex/values";
import { query } from "./_generated/server";

export type Shape = { kind: "circle"; radius: number } | { kind: "square"; side: number };

export function area(shape: Shape): number {
  return shape.kind === "circle" ? Math.PI * shape.radius ** 2 : shape.side ** 2;
}

export const square = query({ args: { side: v.number() }, handler: async (_ctx, { side }) => area({ kind: "square", side }) });
