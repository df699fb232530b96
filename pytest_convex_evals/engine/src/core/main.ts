/** Entry point of the core: options, listeners, control channel. */

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { Control } from "./control.js";
import { DataError } from "./durable/errors.js";
import { DataFolder } from "./durable/folder.js";
import { keysFor } from "./durable/keys.js";
import { Engine } from "./engine.js";
import { UserError } from "./errors.js";
import { HttpFront, VERSION } from "./http/server.js";
import type { CageSettings, RunnerSettings } from "./runners/process.js";

const HEAP_MEGABYTES = 128;
const NO_CAGE: CageSettings = { prefix: [], nodePrefix: [], packages: null, relay: null };

function port(text: string | undefined): number | null {
  return text === undefined ? null : Number(text);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: "string" },
      "site-port": { type: "string" },
      "admin-key": { type: "string" },
      "instance-name": { type: "string" },
      cage: { type: "string" },
      "runner-script": { type: "string" },
      "action-seconds": { type: "string" },
      data: { type: "string" },
      "compact-bytes": { type: "string" },
      "room-bytes": { type: "string" },
      own: { type: "boolean", default: false },
    },
  });
  const data = values.data === undefined ? null : DataFolder.open(values.data, report, values["compact-bytes"] === undefined ? undefined : Number(values["compact-bytes"]));
  const keys = keysFor(data?.recovered?.facts, { instanceName: values["instance-name"], adminKey: values["admin-key"] });
  const cage = { ...NO_CAGE, ...(JSON.parse(values.cage ?? "{}") as Partial<RunnerSettings>) };
  const engine = new Engine({
    keys,
    data,
    own: values.own,
    roomBytes: values["room-bytes"] === undefined ? undefined : Number(values["room-bytes"]),
    runner: {
      script: values["runner-script"] ?? join(dirname(fileURLToPath(import.meta.url)), "runner.cjs"),
      node: process.execPath,
      ...cage,
      heapMegabytes: HEAP_MEGABYTES,
      ...(values["action-seconds"] === undefined ? {} : { actionSeconds: Number(values["action-seconds"]) }),
    },
  });
  const front = new HttpFront(engine);
  await engine.open();
  await front.listen(port(values.port), port(values["site-port"]));
  await engine.resume();
  await engine.allowOrigins([]);
  const exit = (): void => {
    engine.shutdown();
    front.close();
    process.exit(0);
  };
  process.on("SIGTERM", exit);
  process.on("SIGINT", exit);
  // A limit on the size of files is an error of the write that meets it, not the end of the process.
  process.on("SIGXFSZ", () => undefined);
  process.on("unhandledRejection", (error) => engine.report(error));
  process.on("uncaughtException", (error) => engine.report(error));
  const ready = (): Record<string, string> => ({
    url: engine.cloudUrl,
    siteUrl: engine.siteUrl,
    adminKey: engine.adminKey,
    instanceName: keys.instanceName,
    version: VERSION,
  });
  /** For the next deployment: nobody who knew the last one reaches it. */
  const renew = async (): Promise<Record<string, string>> => {
    if (data !== null) throw new UserError("BadRequest", "a deployment with a data folder is not renewed");
    front.close();
    engine.adminKey = keysFor(undefined, { instanceName: keys.instanceName, adminKey: values["admin-key"] }).adminKey;
    await engine.wipe();
    await front.listen(port(values.port), port(values["site-port"]));
    // Relays lead to the new ports.
    await engine.allowOrigins([]);
    return ready();
  };
  new Control(engine, exit, renew).serve(ready());
}

/** Problems in the background are told on standard error. */
function report(error: unknown): void {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
}

void main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof DataError ? error.message : String(error)}\n`);
  process.exit(1);
});
