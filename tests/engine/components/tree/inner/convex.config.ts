import { defineComponent } from "convex/server";
import { v } from "convex/values";

export default defineComponent("inner", { env: { LEVEL: v.optional(v.string()) } });
