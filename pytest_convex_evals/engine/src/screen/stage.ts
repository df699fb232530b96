/** One window at a time with one mounted component in it, and a record of what it printed and threw. */
import { Script } from "node:vm";

import { ENVIRONMENT, MOUNT } from "../toolchain/client/entry.js";
import { JSDOM, VirtualConsole, type Dom } from "./packages.js";
import { PRELUDE, type HostParts, type Timers } from "./prelude.js";
import { Refusal, words } from "./protocol.js";
import { allowPorts, setOnline } from "./reach.js";

const PAGE = '<!doctype html><html lang="en"><head><title>app</title></head><body><div id="root"></div></body></html>';
const KEPT = 100;
const KEPT_TEXT = 2_000;
const PRINTING = ["debug", "error", "info", "log", "warn"];
const CLASSES = [
  "AbortController", "AbortSignal", "FormData", "Headers", "Request", "Response", "TextDecoder", "TextEncoder",
  "ReadableStream", "TransformStream", "WritableStream", "structuredClone",
] as const; // prettier-ignore

interface Program {
  name: string;
  /** The first time. */
  source: string | null;
}

export interface Play {
  /** What the page is made of, in the order it runs in. */
  programs: Program[];
  url: string;
  /** Ports of the deployment. */
  ports: number[];
  props: Record<string, unknown>;
  environment: Record<string, string>;
  online: boolean;
}

type Mount = (container: Element, url: string, props: unknown, thrown: (error: unknown) => void) => () => void;

export class Stage {
  /** What was thrown and not handled by the code itself. */
  readonly errors: string[] = [];
  /** What was printed. */
  readonly printed: string[] = [];
  private readonly programs = new Map<string, Script>();
  private dom: Dom | undefined;
  private timers: Timers | undefined;
  private unmount: (() => void) | undefined;
  private changed = false;
  private awaken: (() => void) | undefined;

  /** The document of the mounted component. */
  get body(): HTMLElement {
    if (this.dom === undefined) throw new Refusal("nothing_rendered", "nothing has been rendered yet");
    this.changed = false;
    return this.dom.window.document.body;
  }

  render(play: Play): void {
    this.clear();
    allowPorts(play.ports);
    setOnline(play.online);
    const dom = this.open();
    const context = dom.getInternalVMContext();
    const prelude = new Script(PRELUDE, { filename: "window.js" }).runInContext(context) as (host: HostParts) => Timers;
    this.timers = prelude({
      fetch: (url, init) => fetch(url as string, init as RequestInit),
      classes: CLASSES,
      classOf: (name) => (globalThis as Record<string, unknown>)[name],
      said: (kind, text) => this.print(kind, text),
    });
    dom.window[ENVIRONMENT] = dom.window.JSON.parse(JSON.stringify(play.environment));
    const props: unknown = dom.window.JSON.parse(JSON.stringify(play.props));
    try {
      for (const program of play.programs) this.compiled(program).runInContext(context);
      const mount = dom.window[MOUNT] as Mount;
      delete dom.window[MOUNT];
      const container = dom.window.document.getElementById("root") as HTMLElement;
      this.unmount = mount(container, play.url, props, (error) => this.threw(error));
    } catch (error) {
      this.threw(error);
    }
  }

  /** Ends the mounted component and its window. */
  clear(): void {
    const { dom, unmount } = this;
    this.dom = this.timers = this.unmount = undefined;
    allowPorts([]);
    setOnline(true);
    try {
      unmount?.();
      dom?.window.close();
    } catch {
      // What a component does when it is taken down is not looked at.
    }
    this.errors.length = this.printed.length = 0;
  }

  /** Until the document differs from what was last looked at, or the time is over. A page that hides its changes is looked at later. */
  async rest(seconds: number): Promise<void> {
    if (this.changed) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.awaken = resolve;
      timer = setTimeout(resolve, seconds * 1_000);
    });
    clearTimeout(timer);
    this.awaken = undefined;
  }

  holdTimers(held: boolean): void {
    if (held) this.timers?.hold();
    else this.timers?.release();
  }

  /** Remember something thrown, once. */
  threw(error: unknown): void {
    const said = words(error);
    if (this.errors.length < KEPT && !this.errors.includes(said)) this.errors.push(said);
  }

  /** Compiled once; every window runs it afresh. */
  private compiled({ name, source }: Program): Script {
    const known = this.programs.get(name);
    if (known !== undefined) return known;
    if (source === null) throw new Refusal("unknown_program", `there is no program ${name}`);
    const made = new Script(source, { filename: "app.js" });
    this.programs.set(name, made);
    return made;
  }

  private print(kind: string, text: string): void {
    if (this.printed.length < KEPT) this.printed.push(`${kind}: ${text.slice(0, KEPT_TEXT)}`);
  }

  private open(): Dom {
    const virtualConsole = new VirtualConsole();
    for (const kind of PRINTING) {
      virtualConsole.on(kind, (...args) => {
        const text = args.slice(0, 10).map(words).join(" ");
        if (!text.includes("Download the React DevTools")) this.print(kind, text);
      });
    }
    virtualConsole.on("jsdomError", (error) => this.print("page", words(error)));
    const dom = new JSDOM(PAGE, {
      url: "http://localhost:5173/",
      runScripts: "outside-only",
      pretendToBeVisual: true,
      virtualConsole,
    });
    dom.window.addEventListener("error", (event) => this.threw((event as ErrorEvent).error));
    const watch = new dom.window.MutationObserver(() => {
      this.changed = true;
      this.awaken?.();
    });
    watch.observe(dom.window.document, { subtree: true, childList: true, characterData: true, attributes: true });
    this.dom = dom;
    return dom;
  }
}
