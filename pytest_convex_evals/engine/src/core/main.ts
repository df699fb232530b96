/** Entry point of the core: options, listeners, control channel. */

import { randomBytes } from "node:crypto";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { Control } from "./control.js";
import { Engine } from "./engine.js";
import { HttpFront, VERSION } from "./http/server.js";

const HEAP_MEGABYTES = 128;

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
      "runner-prefix": { type: "string" },
      "runner-script": { type: "string" },
      "action-seconds": { type: "string" },
    },
  });
  const instanceName = values["instance-name"] ?? "carnitas";
  const newKey = (): string => values["admin-key"] ?? `${instanceName}|${randomBytes(32).toString("hex")}`;
  const prefix = values["runner-prefix"] === undefined ? [] : (JSON.parse(values["runner-prefix"]) as string[]);
  const engine = new Engine({
    instanceName,
    adminKey: newKey(),
    runner: {
      script: values["runner-script"] ?? join(dirname(fileURLToPath(import.meta.url)), "runner.mjs"),
      prefix,
      node: process.execPath,
      heapMegabytes: HEAP_MEGABYTES,
      ...(values["action-seconds"] === undefined ? {} : { actionSeconds: Number(values["action-seconds"]) }),
    },
  });
  const front = new HttpFront(engine);
  await front.listen(port(values.port), port(values["site-port"]));
  engine.wipe();
  const exit = (): void => {
    engine.shutdown();
    front.close();
    process.exit(0);
  };
  process.on("SIGTERM", exit);
  process.on("SIGINT", exit);
  process.on("unhandledRejection", (error) => engine.report(error));
  process.on("uncaughtException", (error) => engine.report(error));
  const ready = (): Record<string, string> => ({
    url: engine.cloudUrl,
    siteUrl: engine.siteUrl,
    adminKey: engine.adminKey,
    instanceName,
    version: VERSION,
  });
  /** For the next deployment: nobody who knew the last one reaches it. */
  const renew = async (): Promise<Record<string, string>> => {
    front.close();
    engine.adminKey = newKey();
    engine.wipe();
    await front.listen(port(values.port), port(values["site-port"]));
    return ready();
  };
  new Control(engine, exit, renew).serve(ready());
}

void main().catch((error: unknown) => {
  process.stderr.write(`${String(error)}\n`);
  process.exit(1);
});
