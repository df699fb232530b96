import { defineApp } from "convex/server";
import { v } from "convex/values";
import outer from "./outer/convex.config";
const app = defineApp({ env: { TOP: v.optional(v.string()) } });
app.use(outer, { httpPrefix: "/o/", env: { MIDDLE: app.env.TOP } });
app.use(outer, { name: "other" });
export default app;
