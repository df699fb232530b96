import { httpRouter } from "convex/server";
import { httpAction } from "./_generated/server";

const http = httpRouter();
const handler = httpAction(async (ctx, request) =>
  Response.json([
    "app",
    (await (ctx as any).meta.getFunctionMetadata()).componentPath,
    new URL(request.url).pathname,
    await ctx.auth.getUserIdentity(),
  ]),
);
http.route({ path: "/o/exact", method: "GET", handler });
http.route({ pathPrefix: "/", method: "GET", handler });
export default http;
