/** Entry point of the core: options, listeners, control channel. */

import { randomBytes } from "node:crypto";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { Control } from "./control.js";
import { Engine } from "./engine.js";
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
    },
  });
  const instanceName = values["instance-name"] ?? "carnitas";
  const adminKey = values["admin-key"] ?? `${instanceName}|${randomBytes(32).toString("hex")}`;
  const cage = { ...NO_CAGE, ...(JSON.parse(values.cage ?? "{}") as Partial<RunnerSettings>) };
  const engine = new Engine({
    instanceName,
    adminKey,
    runner: {
      script: values["runner-script"] ?? join(dirname(fileURLToPath(import.meta.url)), "runner.mjs"),
      node: process.execPath,
      ...cage,
      heapMegabytes: HEAP_MEGABYTES,
      ...(values["action-seconds"] === undefined ? {} : { actionSeconds: Number(values["action-seconds"]) }),
    },
  });
  const front = new HttpFront(engine);
  await front.listen(port(values.port), port(values["site-port"]));
  engine.wipe();
  await engine.allowOrigins([]);
  const exit = (): void => {
    engine.shutdown();
    front.close();
    process.exit(0);
  };
  process.on("SIGTERM", exit);
  process.on("SIGINT", exit);
  process.on("unhandledRejection", (error) => engine.report(error));
  process.on("uncaughtException", (error) => engine.report(error));
  new Control(engine, exit).serve({ url: engine.cloudUrl, siteUrl: engine.siteUrl, adminKey, instanceName, version: VERSION });
}

void main().catch((error: unknown) => {
  process.stderr.write(`${String(error)}\n`);
  process.exit(1);
});
