import { createOpenAI } from "@ai-sdk/openai";
import { generateObject } from "ai";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";

export const manifest = z.object({ name: z.string().regex(/^[a-z_-]+$/), dependencies: z.record(z.string(), z.string()) });

const opinion = z.object({ lines: z.number(), enough: z.boolean() });

/** A model of this process: it answers as a service on the network would, and needs no key. */
export async function judge(text: string): Promise<z.infer<typeof opinion>> {
  const lines = text.split("\\n").length;
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      const content = JSON.stringify({ lines, enough: lines > 2 });
      response.setHeader("Content-Type", "application/json");
      response.end(
        JSON.stringify({
          id: "1",
          object: "chat.completion",
          created: 1,
          model: "judge",
          choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }],
          usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
        }),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const provider = createOpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "none" });
    const { object } = await generateObject({ model: provider.chat("judge"), schema: opinion, prompt: `How many lines has this text?\n${text}` });
    return object;
  } finally {
    server.close();
  }
}
