import type { StreamId } from "@convex-dev/persistent-text-streaming";
import { httpRouter } from "convex/server";

import { httpAction } from "./_generated/server";
import { streaming } from "./project";

const http = httpRouter();
http.route({
  path: "/stream",
  method: "POST",
  handler: httpAction(async (ctx, request) => {
    const { id } = (await request.json()) as { id: string };
    return streaming.stream(ctx, request, id as StreamId, async (_ctx, _request, _id, append) => {
      for (const sentence of ["One. ", "Two! ", "Three"]) await append(sentence);
    });
  }),
});
export default http;
