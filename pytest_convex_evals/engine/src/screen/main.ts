/**
 * Entry point of the screen: submitted components run here, in a window without Node, and are acted on from outside.
 *
 * Set-up loads it once and keeps the process as it is then (`screen.blob`); every screen goes on from there, because loading
 * the packages takes longer than most checks. What is here must therefore depend on nothing of the machine before `main`.
 */
import { startupSnapshot } from "node:v8";

import { byRole, fieldOf, literally, only, seen, userOf, type Name } from "./acts.js";
import { answer, serve, type Operation } from "./protocol.js";
import { guardSockets, leadOut, openWays, setOnline } from "./reach.js";
import { rehearse } from "./rehearsal.js";
import { Stage, type Play } from "./stage.js";
import { lineOf, visibleText } from "./text.js";

const MOST_HTML = 256 * 1024;

/** Bytes that a page may leave to be collected; near the limit of the process even our own work fails. */
const MOST_LEFT = 400 * 1024 * 1024;

const stage = new Stage();
const nameIn = (params: Record<string, unknown>): Name | null => (params.name ?? null) as Name | null;
const found = (params: Record<string, unknown>): HTMLElement[] => byRole(stage.body, String(params.role), nameIn(params));

const operations: ReadonlyMap<string, Operation> = new Map<string, Operation>([
  [
    "render",
    async (params) => {
      const play = params as unknown as Play;
      await openWays(play.ports);
      stage.render(play);
      return stage.errors;
    },
  ],
  [
    "clear",
    () => {
      stage.clear();
      return isSpent();
    },
  ],
  ["text", () => visibleText(stage.body)],
  ["texts", (params) => found(params).map(lineOf)],
  ["elements", (params) => found(params).map((element) => seen(element, String(params.role)))],
  ["html", () => stage.body.innerHTML.slice(0, MOST_HTML)],
  ["said", () => ({ errors: stage.errors, printed: stage.printed })],
  ["rest", (params) => stage.rest(Number(params.seconds))],
  ["online", (params) => setOnline(params.online === true)],
  ["timers", (params) => stage.holdTimers(params.held === true)],
  ["click", async (params) => userOf(stage.body).click(only(found(params), String(params.role), nameIn(params)))],
  ["press", async (params) => userOf(stage.body).keyboard(`{${String(params.key)}}`)],
  [
    "type",
    async (params) => {
      const user = userOf(stage.body);
      const field = fieldOf(stage.body, nameIn(params));
      if (params.clear === true) await user.clear(field);
      if (params.text !== "") await user.type(field, literally(String(params.text)));
    },
  ],
  [
    "select",
    async (params) => userOf(stage.body).selectOptions(fieldOf(stage.body, nameIn(params)), String(params.option)),
  ],
]);

function isSpent(): boolean {
  const { heapTotal, external } = process.memoryUsage();
  return heapTotal + external > MOST_LEFT;
}

/** `[FOLDER]`: of the sockets that lead out of the cage. */
function main(): void {
  // Whatever comes loose in submitted code is its own and must not end the process.
  process.on("unhandledRejection", (reason) => stage.threw(reason));
  process.on("uncaughtException", (error) => stage.threw(error));
  for (const kind of ["debug", "error", "info", "log", "trace", "warn"] as const) console[kind] = () => undefined;

  const folder = process.argv[2];
  if (folder !== undefined) leadOut(folder);
  guardSockets();
  answer({ ready: { node: process.version } });
  void serve(operations).then(() => process.exit(0));
}

if (startupSnapshot.isBuildingSnapshot()) {
  rehearse();
  startupSnapshot.setDeserializeMainFunction(main);
} else {
  main();
}
