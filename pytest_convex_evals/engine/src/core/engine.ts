/** The parts of a running backend and the operations that concern all of them. */

import { createHash, randomBytes, randomInt } from "node:crypto";
import { realpathSync } from "node:fs";

import { Authenticator } from "./auth/authenticator.js";
import { Database } from "./db/database.js";
import { makeTable, tableKey } from "./db/tables.js";
import { SYSTEM_TABLES } from "./db/database.js";
import { CursorCodec } from "./db/pagination.js";
import { Deployment } from "./deployment.js";
import { Caller } from "./functions/caller.js";
import { aliases, isLoopback } from "./functions/fetch.js";
import { LogStream } from "./functions/logs.js";
import { Handles } from "./functions/paths.js";
import { Pushes } from "./push/push.js";
import { activateSchemas } from "./push/schemas.js";
import { ActionRunnerClient } from "./runners/actions.js";
import type { RunnerSettings } from "./runners/process.js";
import { Relay } from "./runners/relay.js";
import { UdfRunner } from "./runners/udf.js";
import { Watchdog } from "./runners/watchdog.js";
import { Files } from "./storage/files.js";
import { Activity } from "./time/activity.js";
import { Clock } from "./time/clock.js";
import { Crons } from "./time/crons.js";
import { Scheduler } from "./time/scheduler.js";
import { encodeId } from "./values/ids.js";

export interface EngineSettings {
  instanceName: string;
  adminKey: string;
  runner: RunnerSettings;
}

const COMPONENTS_TABLE_NUMBER = 545;

export class Engine {
  cloudUrl = "";
  siteUrl = "";
  readonly instanceName: string;
  readonly adminKey: string;
  readonly clock = new Clock();
  readonly db = new Database(this.clock);
  readonly env = new Map<string, string>();
  readonly handles = new Handles();
  readonly logs = new LogStream();
  readonly cursors = new CursorCodec(randomBytes(16).toString("hex"));
  readonly activity: Activity;
  readonly files: Files;
  readonly caller: Caller;
  readonly scheduler: Scheduler;
  readonly crons: Crons;
  readonly pushes: Pushes;
  readonly auth: Authenticator;
  readonly allowedOrigins = new Set<string>();
  readonly udfRunner: UdfRunner;
  readonly actionRunner: ActionRunnerClient;
  readonly nodeRunner: ActionRunnerClient;
  /** Seed and time of the import phase: fixed for the deployment. */
  readonly importSeed = randomInt(2 ** 32);
  readonly importNow = Date.now();
  /** Counts resets: work begun before one must not touch the data after it. */
  epoch = 0;
  private active = Deployment.empty();
  private readonly watchdog = new Watchdog();
  private readonly relay: Relay | null;
  private readonly resetListeners = new Set<() => void>();

  constructor(private readonly settings: EngineSettings) {
    this.instanceName = settings.instanceName;
    this.adminKey = settings.adminKey;
    const current = (): Deployment => this.active;
    this.udfRunner = new UdfRunner(settings.runner, this.watchdog, current);
    this.actionRunner = new ActionRunnerClient("action", settings.runner, this.watchdog, current, this.clock);
    this.nodeRunner = new ActionRunnerClient("node", settings.runner, this.watchdog, current, this.clock);
    this.relay = settings.runner.relay === null ? null : new Relay(settings.runner.relay.outside);
    this.activity = new Activity(this);
    this.files = new Files(this, randomBytes(16).toString("hex"));
    this.caller = new Caller(this);
    this.scheduler = new Scheduler(this);
    this.crons = new Crons(this);
    this.pushes = new Pushes(this);
    this.auth = new Authenticator(this);
    this.udfRunner.warm();
  }

  get deployment(): Deployment {
    return this.active;
  }

  builtinEnv(): Record<string, string> {
    return { CONVEX_CLOUD_URL: this.cloudUrl, CONVEX_SITE_URL: this.siteUrl };
  }

  /** The id under which system functions know a component. */
  componentId(path: string): string {
    return encodeId(COMPONENTS_TABLE_NUMBER, createHash("sha256").update(path).digest().subarray(0, 16));
  }

  componentById(id: string): string | null {
    return this.active.components().find((component) => this.componentId(component.path) === id)?.path ?? null;
  }

  /** Makes a pushed deployment the running one. */
  activate(deployment: Deployment): void {
    this.active = deployment;
    const modules = [...deployment.definitions.values()].flatMap((definition) => [...definition.modules.values()]);
    const hasActions = (node: boolean): boolean =>
      modules.some((module) => (module.environment === "node") === node && (module.httpRoutes !== null || module.functions.some((fn) => fn.kind === "Action")));
    if (hasActions(false)) this.actionRunner.warm();
    if (hasActions(true)) this.nodeRunner.warm();
    this.crons.activate();
    for (const listener of this.resetListeners) listener();
  }

  /** Called when everything that subscriptions read may have changed. */
  onReset(listener: () => void): () => void {
    this.resetListeners.add(listener);
    return () => this.resetListeners.delete(listener);
  }

  /** Functions read variables, so subscriptions must be looked at again. */
  environmentChanged(): void {
    for (const listener of this.resetListeners) listener();
  }

  /** Where Node actions find packages that are not bundled: the folder that holds them, or null. */
  usePackages(folder: string | null): void {
    this.settings.runner.packageFolder = folder === null ? null : realpathSync(folder);
    this.nodeRunner.restart();
  }

  get packages(): string | null {
    return this.settings.runner.packageFolder ?? null;
  }

  /** Replaces what actions may reach beside the deployment itself; sockets of caged Node actions reach the same. */
  async allowOrigins(origins: readonly string[]): Promise<void> {
    this.allowedOrigins.clear();
    for (const origin of origins.map((text) => new URL(text))) {
      for (const name of isLoopback(origin) ? aliases(origin.origin) : [origin.origin]) this.allowedOrigins.add(name);
    }
    if (this.relay === null) return;
    const reachable = [this.cloudUrl, this.siteUrl, ...this.allowedOrigins].map((text) => new URL(text)).filter(isLoopback);
    const ports = [...new Set(reachable.map((url) => Number(url.port)))];
    await this.relay.allow(ports);
    this.nodeRunner.useReach(ports);
  }

  /** Drops all data, keeps the deployment; runners, scheduler and crons start anew. */
  reset(clockStart: number | null): void {
    this.stopWork();
    this.db.clear();
    if (clockStart !== null) this.clock.startVirtual(clockStart);
    else this.clock.startReal();
    this.prepareTables();
    this.logs.clear();
    this.crons.restart();
    for (const listener of this.resetListeners) listener();
  }

  /** Drops everything, the deployment and its environment too. */
  wipe(): void {
    this.stopWork();
    this.db.clear();
    this.db.schemas.clear();
    this.clock.startReal();
    this.active = Deployment.empty();
    this.env.clear();
    void this.allowOrigins([]).catch((error: unknown) => this.report(error));
    this.logs.clear();
    this.crons.restart();
    this.prepareTables();
    for (const listener of this.resetListeners) listener();
  }

  private prepareTables(): void {
    if (this.active.root !== null) activateSchemas(this, this.active);
    else this.db.restructure(new Map([...SYSTEM_TABLES].map(([name, number]) => [tableKey("", name), makeTable("", name, number)])));
  }

  private stopWork(): void {
    this.epoch += 1;
    this.scheduler.clear();
    this.udfRunner.restart();
    this.udfRunner.warm();
    const hadActions = this.actionRunner.isStarted;
    const hadNode = this.nodeRunner.isStarted;
    this.actionRunner.restart();
    this.nodeRunner.restart();
    if (hadActions) this.actionRunner.warm();
    if (hadNode) this.nodeRunner.warm();
  }

  shutdown(): void {
    this.scheduler.clear();
    this.udfRunner.shutdown();
    this.actionRunner.restart();
    this.nodeRunner.restart();
    this.relay?.close();
  }

  /** A defect or an operational failure in the background: told on stderr, never to a client. */
  report(error: unknown): void {
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  }
}
