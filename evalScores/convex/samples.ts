// The same answers are one sample, however often they are graded: of complete runs with the same answers the newest counts.
import type { Doc } from "./_generated/dataModel";
import type { MutationCtx } from "./_generated/server";
import { refusal } from "./errors";
import type { Answers } from "./validators";

const DIGITS = 64;
const MODULUS = BigInt(2) ** BigInt(256);
export const NO_ANSWERS: Answers = { sum: "0".repeat(DIGITS), known: 0 };

type Sampled = Pick<Doc<"runs">, "modelId" | "experimentId" | "suiteId">;

export function checkAnswer(answer: string | undefined): void {
  if (answer !== undefined && !/^[0-9a-f]{64}$/.test(answer))
    throw refusal("invalid", `The answer ${JSON.stringify(answer)} is not a SHA-256 in lower-case hex.`);
}

/** A sum of hashes: each answer can come and go in any order, and no run has to be read as a whole. */
export function addAnswer({ sum, known }: Answers, answer: string, by: 1 | -1): Answers {
  const total = hex(sum) + BigInt(by) * hex(answer);
  return { sum: ((total + MODULUS) % MODULUS).toString(16).padStart(DIGITS, "0"), known: known + by };
}

function hex(digits: string): bigint {
  return BigInt(`0x${digits}`);
}

/** What stands for the answers of a run; absent while it is incomplete, or when somebody did not say which answers these are. */
export function sampleOf(run: Pick<Doc<"runs">, "answers" | "counts">, complete: boolean): string | undefined {
  return complete && run.answers?.known === run.counts.planned ? run.answers.sum : undefined;
}

/** The newest runs with the same answers, in one version. */
function newest(ctx: MutationCtx, { modelId, experimentId, suiteId }: Sampled, sample: string, count: number): Promise<Doc<"runs">[]> {
  return ctx.db
    .query("runs")
    .withIndex("by_sample", (q) =>
      q.eq("modelId", modelId).eq("experimentId", experimentId).eq("suiteId", suiteId).eq("sample", sample),
    )
    .order("desc")
    .take(count);
}

/** A run has got this sample: it counts, or a newer one does. */
export async function joinSample(ctx: MutationCtx, run: Doc<"runs">, sample: string | undefined): Promise<void> {
  if (sample === undefined) return;
  const [first, second] = await newest(ctx, run, sample, 2);
  const duplicate = first?._id === run._id ? second : run;
  if (duplicate !== undefined) await ctx.db.patch(duplicate._id, { duplicate: true });
}

/** A run with this sample has gone: the newest of the others counts. */
export async function leaveSample(ctx: MutationCtx, run: Sampled, sample: string | undefined): Promise<void> {
  if (sample === undefined) return;
  const [first] = await newest(ctx, run, sample, 1);
  if (first?.duplicate) await ctx.db.patch(first._id, { duplicate: undefined });
}

/** The newest of each sample, of runs that are sorted from new to old. */
export function withoutDuplicates(runs: Doc<"runs">[]): Doc<"runs">[] {
  const seen = new Set<string>();
  return runs.filter(({ sample }) => sample === undefined || (!seen.has(sample) && seen.add(sample)));
}
