/** Evaluation of pushed modules in the runner: analysis, schema, definitions, auth config. */

import type { StartOptions } from "../../shared/protocol.js";
import { framesOf, type ModuleSource } from "../deployment.js";
import type { Engine } from "../engine.js";
import { JsFailure, UserError } from "../errors.js";
import { CallLog } from "../functions/logs.js";
import { MS, RunnerLost, Terminated, type Budget } from "../runners/udf.js";

export interface Evaluation {
  what: "analyze" | "schema" | "config" | "auth";
  /** Key under which the runner knows the definition's modules. */
  def: string;
  path: string;
  env: Record<string, string>;
  node?: boolean;
  components?: Record<string, string>;
}

const SECONDS: Record<Evaluation["what"], number> = { analyze: 4, schema: 1, config: 1, auth: 1 };
const IMPORT_LOG_LINES = 100;

/** Modules of a push under evaluation, known to the runners beside those that are deployed. */
export class Evaluator {
  constructor(
    private readonly engine: Engine,
    definitions: readonly { def: string; sources: readonly ModuleSource[] }[],
  ) {
    engine.udfRunner.useModules(definitions.flatMap(({ def, sources }) => framesOf(def, sources, false)));
    const node = definitions.flatMap(({ def, sources }) => framesOf(def, sources, true));
    if (node.length > 0) engine.nodeRunner.useModules(node);
  }

  close(): void {
    this.engine.udfRunner.useModules([]);
    this.engine.nodeRunner.useModules([]);
  }

  /** The description of the module as text. Throws JsFailure for what the code throws and UserError for coded refusals. */
  async run(evaluation: Evaluation): Promise<string> {
    const log = new CallLog();
    const start: StartOptions = {
      what: evaluation.what,
      def: evaluation.def,
      path: evaluation.path,
      fn: "",
      now: this.engine.clock.nowMs(),
      seed: 1,
      importNow: this.engine.importNow,
      importSeed: this.engine.importSeed,
      env: evaluation.env,
      ...(evaluation.components === undefined ? {} : { components: evaluation.components }),
    };
    try {
      return await (evaluation.node === true ? this.runNode(start, log) : this.runIsolate(start, log, evaluation.what));
    } catch (error) {
      throw withImportLogs(error, log);
    }
  }

  private async runIsolate(start: StartOptions, log: CallLog, what: Evaluation["what"]): Promise<string> {
    const budget: Budget = { usedNs: 0, systemNs: 0, limitNs: SECONDS[what] * 1000 * MS, message: `Function execution timed out (maximum duration: ${SECONDS[what]}s)` };
    const handler = {
      budget,
      sync: (): string => {
        throw new UserError("BadRequest", "Can't use database at import time");
      },
      answer: (): null => null,
      log: (level: string, line: string) => log.add(level, line),
    };
    for (let attempt = 0; ; attempt++) {
      try {
        const { call, first } = this.engine.udfRunner.begin(start, "", handler);
        const { done } = await first.finally(() => this.engine.udfRunner.finished(call));
        if (done === null) throw new JsFailure("Returned promise will never resolve");
        if (done.ok) return done.payload;
        throw decoded(done.error.message, done.error.frames);
      } catch (error) {
        if (error instanceof RunnerLost && attempt < 3) continue;
        if (error instanceof Terminated || error instanceof RunnerLost) throw new JsFailure(error.message);
        throw error;
      }
    }
  }

  private async runNode(start: StartOptions, log: CallLog): Promise<string> {
    const { done } = await this.engine.nodeRunner.call(start, "", {
      syscall: () => Promise.reject(new UserError("BadRequest", "Can't use database at import time")),
      log: (level, line) => log.add(level, line),
    });
    if (done.ok) return done.payload;
    throw decoded(done.error.message, done.error.frames);
  }
}

function decoded(message: string, frames: readonly string[]): Error {
  const at = message.indexOf("\u0000");
  return at === -1 ? new JsFailure(message, frames) : new UserError(message.slice(0, at), message.slice(at + 1));
}

function withImportLogs(error: unknown, log: CallLog): unknown {
  if (!(error instanceof JsFailure) || log.lines.length === 0) return error;
  return new JsFailure(`${error.text}\n\n${log.lines.slice(-IMPORT_LOG_LINES).join("\n")}`);
}
