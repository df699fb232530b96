/** The parts of a running backend and the operations that concern all of them. */

import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";

import { Authenticator } from "./auth/authenticator.js";
import { CLOCK, Database } from "./db/database.js";
import { CursorCodec } from "./db/pagination.js";
import { Room } from "./db/room.js";
import { Deployment, type AuthProvider } from "./deployment.js";
import { DEPLOYMENT, deploymentFact, deploymentFrom, ENVIRONMENT, environmentFact, environmentFrom } from "./durable/deployed.js";
import type { Fact } from "./durable/entries.js";
import type { DataFolder } from "./durable/folder.js";
import { keysFact, type DeploymentKeys } from "./durable/keys.js";
import type { Recovered } from "./durable/replay.js";
import { Caller } from "./functions/caller.js";
import { firstCalls } from "./functions/executor.js";
import { aliases, isLoopback, type SharedNetwork } from "./functions/fetch.js";
import { LogStream } from "./functions/logs.js";
import { Handles } from "./functions/paths.js";
import { Exports } from "./portable/exports.js";
import { Imports } from "./portable/imports.js";
import { Pushes } from "./push/push.js";
import { preparedFor } from "./push/schemas.js";
import { ActionRunnerClient } from "./runners/actions.js";
import type { RunnerSettings } from "./runners/process.js";
import { Relay } from "./runners/relay.js";
import { SPARE_MS, UdfRunner } from "./runners/udf.js";
import { Watchdog } from "./runners/watchdog.js";
import type { Schema } from "./schema/schema.js";
import { Files } from "./storage/files.js";
import { SENT_AGAIN } from "./sync/memory.js";
import { Activity } from "./time/activity.js";
import { Clock } from "./time/clock.js";
import { CRON_FACTS } from "./time/cronfacts.js";
import { Crons } from "./time/crons.js";
import { Scheduler } from "./time/scheduler.js";
import { encodeId } from "./values/ids.js";

export interface EngineSettings {
  keys: DeploymentKeys;
  runner: RunnerSettings;
  /** Where everything is kept; null keeps it in memory. */
  data: DataFolder | null;
  /** The code is that of whoever started this: the development key counts, and issuers of tokens may be anywhere. */
  own: boolean;
  /** How much somebody else's code may keep. */
  roomBytes: number | undefined;
}

const COMPONENTS_TABLE_NUMBER = 545;
/** Facts that go with the data. */
const DATA_FACTS = [CRON_FACTS, SENT_AGAIN, CLOCK];

export class Engine {
  cloudUrl = "";
  siteUrl = "";
  readonly instanceName: string;
  adminKey: string;
  readonly clock = new Clock();
  readonly db = new Database(this.clock);
  readonly env = new Map<string, string>();
  readonly handles = new Handles();
  readonly logs = new LogStream();
  readonly cursors: CursorCodec;
  readonly activity: Activity;
  readonly files: Files;
  readonly imports = new Imports(this);
  readonly exports = new Exports(this);
  readonly caller: Caller;
  readonly scheduler: Scheduler;
  readonly crons: Crons;
  readonly pushes: Pushes;
  readonly auth: Authenticator;
  readonly allowedOrigins = new Set<string>();
  /** How much may be kept; null for as much as there is. */
  readonly room: Room | null;
  /** The network that actions share with a grader; null when a grader names what they may reach. */
  network: SharedNetwork | null = null;
  readonly udfRunner: UdfRunner;
  readonly actionRunner: ActionRunnerClient;
  readonly nodeRunner: ActionRunnerClient;
  /** Seed and time of the import phase: fixed for the deployment. */
  readonly importSeed: number;
  readonly importNow: number;
  /** Counts resets: work begun before one must not touch the data after it. */
  epoch = 0;
  private active = Deployment.empty();
  private readonly watchdog = new Watchdog();
  private readonly relay: Relay | null;
  private readonly resetListeners = new Set<() => void>();

  constructor(private readonly settings: EngineSettings) {
    const { keys } = settings;
    this.instanceName = keys.instanceName;
    this.adminKey = keys.adminKey;
    this.importSeed = keys.importSeed;
    this.importNow = keys.importNow;
    this.cursors = new CursorCodec(keys.cursorSecret);
    const current = (): Deployment => this.active;
    this.udfRunner = new UdfRunner(settings.runner, this.watchdog, current);
    this.actionRunner = new ActionRunnerClient("action", settings.runner, this.watchdog, current, this.clock);
    this.nodeRunner = new ActionRunnerClient("node", settings.runner, this.watchdog, current, this.clock);
    this.relay = settings.runner.relay === null ? null : new Relay(settings.runner.relay.outside);
    this.activity = new Activity(this);
    this.files = new Files(this, keys.uploadSecret);
    this.caller = new Caller(this);
    this.scheduler = new Scheduler(this);
    this.crons = new Crons(this);
    this.pushes = new Pushes(this);
    this.auth = new Authenticator(this);
    this.auth.acceptsDevelopmentKey = settings.own;
    this.room = settings.own ? null : new Room(settings.roomBytes);
    this.udfRunner.warm();
  }

  /** Whether the keys of token issuers may be fetched from wherever auth.config says. */
  get anyIssuer(): boolean {
    return this.settings.own;
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

  /** Begins with nothing, or with what the data folder held: all that requests need. */
  async open(): Promise<void> {
    const { data, keys } = this.settings;
    if (data?.recovered) this.restore(data.recovered);
    else await this.wipe();
    if (data === null) return;
    await data.attach(this.db);
    await this.db.remember([keysFact(keys)]);
  }

  private restore(state: Recovered): void {
    this.active = deploymentFrom(state.facts);
    const { tables, schemas } = preparedFor(this.active, state.tables);
    this.db.restore({ ...state, tables });
    this.enforce(schemas);
    for (const [name, value] of environmentFrom(state.facts)) this.env.set(name, value);
    const virtual = state.facts.get(CLOCK);
    if (virtual !== undefined) this.clock.startVirtual(Number(virtual));
  }

  /** Takes up the work of an earlier process. */
  async resume(): Promise<void> {
    if (this.settings.data === null) return;
    this.activate(this.active);
    await this.scheduler.recover();
    await this.crons.recover();
  }

  /** Makes a pushed deployment the running one. `check` may throw to refuse it. */
  async deploy(check: () => Deployment): Promise<void> {
    await this.db.change(() => {
      const deployment = check();
      const { tables, schemas } = preparedFor(deployment, this.db.snapshot.tables);
      return {
        tables,
        facts: this.db.isDurable ? [deploymentFact(deployment)] : [],
        before: () => this.enforce(schemas),
        after: () => this.activate(deployment),
      };
    });
    await this.crons.keep();
  }

  private enforce(schemas: ReadonlyMap<string, Schema>): void {
    this.db.schemas.clear();
    for (const [path, schema] of schemas) this.db.schemas.set(path, schema);
  }

  private activate(deployment: Deployment): void {
    this.active = deployment;
    this.warmActions(deployment);
    this.udfRunner.expect(firstCalls(this));
    this.crons.activate();
    for (const listener of this.resetListeners) listener();
  }

  /** Starts what the actions of a deployment run in. */
  warmActions(deployment: Deployment): void {
    const modules = [...deployment.definitions.values()].flatMap((definition) => [...definition.modules.values()]);
    const hasActions = (node: boolean): boolean =>
      modules.some((module) => (module.environment === "node") === node && (module.httpRoutes !== null || module.functions.some((fn) => fn.kind === "Action")));
    if (hasActions(false)) this.actionRunner.warm();
    if (hasActions(true)) this.nodeRunner.warm();
  }

  /** Called when everything that subscriptions read may have changed. */
  onReset(listener: () => void): () => void {
    this.resetListeners.add(listener);
    return () => this.resetListeners.delete(listener);
  }

  /** Something that queries read outside the tables has changed: imports, exports. */
  stateChanged(): void {
    for (const listener of this.resetListeners) listener();
  }

  /** Replaces the variables by those that `next` returns. Functions read them, so subscriptions are looked at again. */
  async changeEnvironment(next: () => ReadonlyMap<string, string>, auth: readonly AuthProvider[]): Promise<void> {
    await this.db.change(() => {
      const variables = next();
      const isSame = JSON.stringify(auth) === JSON.stringify(this.active.auth);
      const deployment = isSame ? this.active : this.active.withAuth(auth);
      const after = (): void => {
        this.active = deployment;
        this.env.clear();
        for (const [name, value] of variables) this.env.set(name, value);
        this.stateChanged();
      };
      const facts = [environmentFact(variables), ...(this.db.isDurable && !isSame ? [deploymentFact(deployment)] : [])];
      return { facts, after };
    });
  }

  /** A virtual clock that was moved goes on from there after a restart. */
  async keepTime(): Promise<void> {
    await this.db.remember([[CLOCK, String(this.clock.nowMs())]]);
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
    const reachable = [this.cloudUrl, this.siteUrl, ...this.allowedOrigins].filter((text) => text !== "").map((text) => new URL(text)).filter(isLoopback);
    const ports = [...new Set(reachable.map((url) => Number(url.port)))];
    await this.relay.allow(ports);
    this.nodeRunner.useReach(ports);
  }

  /** Lets actions reach whatever listens on the loopback interface of a network that a grader listens in, too. */
  useNetwork(network: SharedNetwork | null, prefix: readonly string[] | null): void {
    this.network = network;
    this.settings.runner.sharedPrefix = prefix;
    this.nodeRunner.restart();
  }

  /** The deployment with all that its analysis found, as text. */
  saved(): string {
    return String(deploymentFact(this.active)[1]);
  }

  /** Makes a saved deployment the running one. */
  async load(saved: string): Promise<void> {
    await this.deploy(() => deploymentFrom(new Map([[DEPLOYMENT, saved]])));
  }

  /** Drops all data, keeps the deployment; scheduler and crons start anew, and nothing of earlier calls is heard any more. */
  async reset(clockStart: number | null): Promise<void> {
    await this.beginAnew(this.active, [], clockStart, () => this.stopWork(false));
  }

  /** Drops everything, the deployment and its environment too. */
  async wipe(): Promise<void> {
    await this.beginAnew(Deployment.empty(), [DEPLOYMENT, ENVIRONMENT], null, () => {
      this.settings.runner.packageFolder = null;
      this.useNetwork(null, null);
      this.stopWork(true);
      this.active = Deployment.empty();
      this.env.clear();
      this.auth.acceptsDevelopmentKey = this.settings.own;
      this.pushes.forget();
    });
    await this.allowOrigins([]);
  }

  private async beginAnew(deployment: Deployment, forget: readonly string[], clockStart: number | null, drop: () => void): Promise<void> {
    await this.db.change(() => {
      const { tables, schemas } = preparedFor(deployment, new Map());
      const time: Fact[] = clockStart === null ? [] : [[CLOCK, String(clockStart)]];
      const before = (): void => {
        drop();
        if (clockStart !== null) this.clock.startVirtual(clockStart);
        else this.clock.startReal();
        this.enforce(schemas);
      };
      const after = (): void => {
        this.logs.clear();
        this.room?.emptied();
        this.crons.restart();
        this.settings.data?.sweep(tables);
        for (const listener of this.resetListeners) listener();
      };
      return { clear: true, tables, forget: [...DATA_FACTS, ...forget], facts: time, before, after };
    });
    await this.crons.keep();
  }

  private stopWork(forAnother: boolean): void {
    this.epoch += 1;
    this.caller.forget();
    this.scheduler.clear();
    this.imports.clear();
    this.exports.clear();
    if (forAnother) this.udfRunner.restart();
    else this.udfRunner.interrupt();
    this.udfRunner.warm();
    for (const runner of [this.actionRunner, this.nodeRunner]) {
      const wanted = runner.isStarted;
      if (forAnother) runner.restart();
      else runner.interrupt();
      if (wanted && forAnother) setTimeout(() => runner.prepareSpare(), SPARE_MS).unref();
      else if (wanted) runner.warm();
    }
  }

  shutdown(): void {
    this.scheduler.clear();
    this.udfRunner.shutdown();
    this.actionRunner.shutdown();
    this.nodeRunner.shutdown();
    this.relay?.close();
  }

  /** A defect or an operational failure in the background: told on stderr, never to a client. */
  report(error: unknown): void {
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  }
}
