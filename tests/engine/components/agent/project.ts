import * as agents from "@convex-dev/agent";
import { Agent, createTool, mockModel, stepCountIs } from "@convex-dev/agent";
import type { EmbeddingModelV4, LanguageModelV4CallOptions, LanguageModelV4GenerateResult } from "@ai-sdk/provider";
import { v } from "convex/values";
import { z } from "zod";

import { components, internal } from "./_generated/api";
import { internalMutation, query } from "./_generated/server";

export { agents, z };

/** Words of the same meaning point in the same direction. */
const MEANINGS = [["cat", "kitten", "purr"], ["rocket", "moon", "orbit"], ["soup", "cook", "kitchen"]];
const embedder: EmbeddingModelV4 = {
  specificationVersion: "v4",
  provider: "test",
  modelId: "meanings",
  maxEmbeddingsPerCall: 10,
  supportsParallelCalls: false,
  doEmbed: async ({ values }) => ({
    warnings: [],
    embeddings: values.map((value) => {
      const words = value.toLowerCase().split(/\W+/);
      const vector = Array.from({ length: 128 }, (_, at) => (MEANINGS[at]?.some((word) => words.includes(word)) ? 1 : 0.001));
      return vector;
    }),
  }),
};

/** Says what it was shown, so that tests see the context that the component chose. */
function told(options: LanguageModelV4CallOptions): LanguageModelV4GenerateResult {
  const shown = options.prompt.map((message) => {
    const parts = typeof message.content === "string" ? [message.content] : message.content.map((part) => (part.type === "text" ? part.text : part.type));
    return `${message.role}: ${parts.join(" ")}`;
  });
  return {
    content: [{ type: "text", text: shown.join(" | ") }],
    finishReason: { unified: "stop", raw: undefined },
    usage: { inputTokens: { total: shown.length, noCache: undefined, cacheRead: undefined, cacheWrite: undefined }, outputTokens: { total: 1, text: 1, reasoning: undefined } },
    warnings: [],
  };
}

export const note = internalMutation({ args: { text: v.string() }, handler: (ctx, { text }) => ctx.db.insert("notes", { text }) });
const remember = createTool({
  description: "Keep a note",
  inputSchema: z.object({ text: z.string() }),
  execute: async (ctx, input): Promise<string> => {
    await ctx.runMutation(internal.project.note, { text: input.text });
    return `kept ${input.text} for ${ctx.userId}`;
  },
});

export const mirror = new Agent(components.agent, {
  name: "mirror",
  instructions: "Repeat.",
  languageModel: mockModel({ doGenerate: async (options) => told(options) }),
  embeddingModel: embedder,
});
export const worker = new Agent(components.agent, {
  name: "worker",
  languageModel: mockModel({
    contentSteps: [
      [{ type: "tool-call", toolCallId: "call-1", toolName: "remember", input: JSON.stringify({ text: "milk" }) }],
      [{ type: "text", text: "It is noted." }],
    ],
  }),
  tools: { remember },
  stopWhen: stepCountIs(3),
});
export const talker = new Agent(components.agent, { name: "talker", languageModel: mockModel({ content: [{ type: "text", text: "one two three four five six" }] }) });
export const broken = new Agent(components.agent, { name: "broken", languageModel: mockModel({ fail: { error: "the model is down" } }) });
export const judge = new Agent(components.agent, { name: "judge", languageModel: mockModel({ content: [{ type: "text", text: '{"verdict":"good","points":7}' }] }) });

export const streams = query({
  args: { threadId: v.string(), streamArgs: v.optional(agents.vStreamArgs) },
  handler: (ctx, { threadId, streamArgs }) => agents.syncStreams(ctx, components.agent, { threadId, streamArgs, includeStatuses: ["streaming", "finished", "aborted"] }),
});
export const answer = talker.asTextAction({ stream: true });
