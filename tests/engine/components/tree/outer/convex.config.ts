import { defineComponent } from "convex/server";
import { v } from "convex/values";
import inner from "../inner/convex.config";
const outer = defineComponent("outer", { env: { MIDDLE: v.optional(v.string()) } });
outer.use(inner, { httpPrefix: "/i/", env: { LEVEL: outer.env.MIDDLE } });
outer.use(inner, { name: "second", env: { LEVEL: "fixed" } });
export default outer;
