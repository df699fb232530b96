import { httpRouter } from "convex/server";
import { httpAction } from "./_generated/server";

const http = httpRouter();

http.route({
  path: "/echo",
  method: "POST",
  handler: httpAction(async (_ctx, request) => new Response(await request.text(), { status: 201, headers: { "X-Kind": "echo" } })),
});

http.route({
  pathPrefix: "/files/",
  method: "GET",
  handler: httpAction(async (_ctx, request) => new Response(new URL(request.url).pathname.slice("/files/".length))),
});

export default http;
