/** What the CLI believes to be its process: it has an environment and an output of its own, and cannot end or hook the worker. */
import { Console } from "node:console";
import { Writable } from "node:stream";

import { Unfit } from "./unfit.js";

/** Temporary files lie beside the project; relative, because the CLI asks once and pushes many. */
export const SCRATCH = "../scratch";

const ENVIRONMENT = { CI: "1", NO_COLOR: "1", CONVEX_TMPDIR: SCRATCH };
const HOOKS = new Set(["on", "once", "off", "addListener", "prependListener", "prependOnceListener", "removeListener", "removeAllListeners", "emitWarning"]);

export class Stage {
  readonly process: NodeJS.Process;
  readonly console: Console;
  /** The origin that the push goes to; nothing else is asked. */
  backend = "";
  private lines: string[] | null = null;
  private abandon: (reason: Unfit) => void = () => undefined;

  constructor() {
    const stream = this.stream();
    this.process = this.shadow(stream);
    this.console = new Console({ stdout: stream, stderr: stream, colorMode: false });
  }

  /** Starts to listen; the result rejects when the push cannot go on. */
  begin(): Promise<never> {
    this.lines = [];
    const abandoned = new Promise<never>((_resolve, reject) => {
      this.abandon = reject;
    });
    abandoned.catch(() => undefined);
    return abandoned;
  }

  say(text: string): void {
    this.lines?.push(text);
  }

  /** Whatever comes later is dropped. */
  end(): string {
    const said = (this.lines ?? []).join("");
    this.lines = null;
    return said;
  }

  /** Gives the push up: whoever awaits the result waits for ever, so that nothing of the push runs on in another project. */
  give<T>(reason: Unfit): Promise<T> {
    this.abandon(reason);
    return new Promise<T>(() => undefined);
  }

  private stream(): Writable {
    return new Writable({
      decodeStrings: false,
      write: (chunk: unknown, _encoding, done) => {
        this.say(String(chunk));
        done();
      },
    });
  }

  private shadow(stream: Writable): NodeJS.Process {
    const exit = (code?: number): never => {
      throw new Unfit("defect", `the CLI wanted to end the process with ${String(code)}`);
    };
    const own: Record<string | symbol, unknown> = { env: { ...ENVIRONMENT }, stdout: stream, stderr: stream, exit, argv: process.argv.slice(0, 1), exitCode: undefined };
    const shadow: NodeJS.Process = new Proxy(process, {
      get: (real, name) => {
        if (Object.hasOwn(own, name)) return own[name];
        if (typeof name === "string" && HOOKS.has(name)) return () => shadow;
        const value: unknown = Reflect.get(real, name, real);
        return typeof value === "function" ? (value.bind(real) as unknown) : value;
      },
      set: (_real, name, value) => {
        own[name] = value;
        return true;
      },
    });
    return shadow;
  }
}
