/**
 * The state of one reading: what has been read, what was found, and how much work is left.
 *
 * Everything read on behalf of something (a handler, a module-level constant) is collected in a frame, so that results
 * can be remembered together with what reading them touched.
 */
import ts from "typescript";
import { Env } from "./env.js";
import type { Project } from "./project.js";
import type { Origin } from "./origin.js";
import type { Json } from "./encode.js";
import type { Result, Val } from "./values.js";

/** What reading something touched: uses by number, Convex functions by path. */
export interface Frame {
  uses: Set<number>;
  refs: Set<string>;
}

export interface Use {
  id: number;
  kind: "call" | "new" | "reference";
  origin: Origin;
  args: Json[];
  receiver: Json;
  node: ts.Node;
  file: string;
  /** Which Convex functions it names in its arguments. */
  refs: string[];
  flows: Set<string>;
}

/** A call on an object that configures the app: `crons.daily(…)`, `http.route(…)`, `app.use(…)`. */
export interface Setting {
  on: Result;
  method: string;
  args: Val[];
  written: string;
  node: ts.Node;
}

export class OutOfSteps extends Error {}

const STEPS_PER_ROOT = 200_000;
const STEPS_IN_ALL = 2_000_000;
const MAX_CALL_DEPTH = 40;

export class Interpreter {
  readonly uses: Use[] = [];
  readonly useKeys = new Map<string, Use>();
  readonly settings: Setting[] = [];
  readonly visited = new Set<ts.Node>();
  readonly remembered = new Map<ts.Node, { value: Val; frame: Frame; env: Env | undefined }>();
  readonly invocations = new Map<string, { value: Val; frame: Frame }>();
  /** Statements at module level that act on a variable: they are part of what the variable is. */
  readonly attached = new Map<ts.Node, ts.Statement[]>();
  /** Module-level variables that are assigned later, with what. */
  readonly assigned = new Map<ts.Symbol, ts.Expression[]>();
  /** Variables whose first value is not all they ever hold. */
  readonly changing = new Set<ts.Symbol>();
  readonly running: ts.Node[] = [];
  readonly calls: ts.Node[] = [];
  truncated = false;
  private readonly frames: Frame[] = [];
  private readonly moduleEnvs = new Map<string, Env>();
  private readonly ids = new WeakMap<Val, number>();
  private nextId = 0;
  private steps = 0;
  private limit = 0;
  private cut = Infinity;

  constructor(readonly project: Project) {}

  get checker(): ts.TypeChecker {
    return this.project.checker;
  }

  moduleEnv(file: string): Env {
    let env = this.moduleEnvs.get(file);
    if (env === undefined) this.moduleEnvs.set(file, (env = new Env(file)));
    return env;
  }

  /** Reads from a fresh start; a reading that goes too deep or too far gives what it found until then. */
  root(read: () => void): Frame {
    this.limit = Math.min(this.steps + STEPS_PER_ROOT, STEPS_IN_ALL);
    const [running, calls, frames] = [this.running.length, this.calls.length, this.frames.length];
    const frame: Frame = { uses: new Set(), refs: new Set() };
    this.frames.push(frame);
    try {
      read();
    } catch (error) {
      if (!(error instanceof OutOfSteps) && !(error instanceof RangeError)) throw error;
      this.truncated = true;
      for (const open of this.frames.slice(frames + 1)) merge(frame, open);
    } finally {
      this.running.length = running;
      this.calls.length = calls;
      this.frames.length = frames;
      this.cut = Infinity;
    }
    return frame;
  }

  /** Reads in a frame of its own, which also counts for the frame around it. */
  framed<T>(read: () => T): { value: T; frame: Frame } {
    const frame: Frame = { uses: new Set(), refs: new Set() };
    this.frames.push(frame);
    const value = read();
    this.frames.pop();
    this.touch(frame);
    return { value, frame };
  }

  touch(frame: Frame): void {
    this.step(frame.uses.size >> 4);
    const current = this.frames.at(-1);
    if (current !== undefined) merge(current, frame);
  }

  touchUse(id: number): void {
    this.frames.at(-1)?.uses.add(id);
  }

  touchFunction(path: string): void {
    this.frames.at(-1)?.refs.add(path);
  }

  /** Pays for work, so that no submission can keep the worker busy for long. */
  step(cost = 1): void {
    this.steps += cost;
    if (this.steps > this.limit) throw new OutOfSteps();
  }

  /** Whether a function may be read inside what is being read now; a refusal leaves what is above it incomplete. */
  mayEnter(node: ts.Node): boolean {
    const outer = this.calls.indexOf(node);
    if (outer === -1 && this.calls.length < MAX_CALL_DEPTH) return true;
    this.cut = Math.min(this.cut, Math.max(outer, 0));
    return false;
  }

  /** Reads a function body as one more call; `complete` says whether the result may be remembered. */
  enter<T>(node: ts.Node, read: () => T): { value: T; complete: boolean } {
    const depth = this.calls.length;
    this.calls.push(node);
    const value = read();
    this.calls.pop();
    const complete = this.cut >= depth;
    if (complete) this.cut = Infinity;
    return { value, complete };
  }

  /** A stable name of a value, for remembering what a function does with it. */
  idOf(value: Val): string {
    if (value.k === "const" && !(typeof value.value === "string" && value.value.length > 64))
      return typeof value.value === "bigint"
        ? `${value.value}n`
        : `${typeof value.value}${JSON.stringify(value.value)}`;
    let id = this.ids.get(value);
    if (id === undefined) this.ids.set(value, (id = this.nextId++));
    return `#${id}`;
  }
}

function merge(into: Frame, from: Frame): void {
  for (const use of from.uses) into.uses.add(use);
  for (const ref of from.refs) into.refs.add(ref);
}
