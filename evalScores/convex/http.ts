// The leaderboard for web pages: JSON that browsers and proxies may keep for a while.
import { httpRouter } from "convex/server";
import { api } from "./_generated/api";
import { httpAction } from "./_generated/server";
import { sha256Hex } from "./input";

const CORS = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Allow-Methods": "GET, OPTIONS",
  "Access-Control-Allow-Headers": "If-None-Match",
  "Access-Control-Expose-Headers": "ETag",
  "Access-Control-Max-Age": "86400",
};
const CACHED = "public, max-age=60, stale-while-revalidate=600";

const leaderboard = httpAction(async (ctx, request) => {
  const asked = new URL(request.url).searchParams;
  const experiment = asked.get("experiment") ?? undefined;
  const version = asked.get("version") ?? undefined;
  const board =
    asked.get("pooled") === "1"
      ? await ctx.runQuery(api.modelScores.pooled, { experiment })
      : await ctx.runQuery(api.modelScores.leaderboard, { experiment, version });
  if (version !== undefined && board.version === null && asked.get("pooled") !== "1") {
    return Response.json({ error: `There is no version ${version}.` }, { status: 404, headers: { ...CORS, "Cache-Control": "no-store" } });
  }
  const body = JSON.stringify(board);
  const headers = { ...CORS, "Cache-Control": CACHED, ETag: `"${(await sha256Hex(body)).slice(0, 32)}"` };
  if (request.headers.get("If-None-Match")?.includes(headers.ETag)) return new Response(null, { status: 304, headers });
  return new Response(body, { headers: { ...headers, "Content-Type": "application/json" } });
});

const http = httpRouter();
http.route({ path: "/leaderboard", method: "GET", handler: leaderboard });
http.route({
  path: "/leaderboard",
  method: "OPTIONS",
  handler: httpAction(async () => new Response(null, { status: 204, headers: CORS })),
});
export default http;
