import { httpRouter } from "convex/server";
import { httpAction } from "./_generated/server";

const http = httpRouter();
const handler = httpAction(async (ctx, request) =>
  Response.json([
    "inner",
    (await (ctx as any).meta.getFunctionMetadata()).componentPath,
    new URL(request.url).pathname,
    await ctx.auth.getUserIdentity(),
  ]),
);
http.route({ path: "/here", method: "GET", handler });
http.route({ pathPrefix: "/under/", method: "GET", handler });
export default http;
