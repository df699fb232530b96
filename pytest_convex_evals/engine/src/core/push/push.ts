/**
 * Pushes: start_push evaluates and analyses, wait_for_schema validates stored data, finish_push activates.
 *
 * What start_push found is kept here under an id; the echo that the client sends back is only used to find it again.
 */

import { randomUUID } from "node:crypto";

import {
  Deployment,
  moduleHash,
  type AuthProvider,
  type Component,
  type Definition,
  type ModuleInfo,
  type ModuleSource,
} from "../deployment.js";
import type { Engine } from "../engine.js";
import { INTERNAL_MESSAGE, JsFailure, UserError } from "../errors.js";
import { parseSchema, type Schema } from "../schema/schema.js";
import { checkValue } from "../validators/check.js";
import { isJsonObject } from "../values/json.js";
import { analyzeModule, AUTH_PATH, byPathComponents, checkCronTargets, checkExportTree, isFunctionModule } from "./analysis.js";
import { parseAuthConfig } from "./auth.js";
import { evaluationFailure, instantiate, parseConfig, postOrder } from "./definitions.js";
import { describePush } from "./describe.js";
import { Evaluator } from "./evaluate.js";
import { decodePush, outsidePackages, type RawDefinition } from "./request.js";
import { checkTableCount, firstInvalidDocument } from "./schemas.js";

const MAX_MODULES = 4096;
const OVERTAKEN = "Another push was started after this one";

interface Pending {
  id: string;
  deployment: Deployment;
  env: string;
}

export class Pushes {
  private pending: Pending | null = null;
  private evaluating: Promise<unknown> = Promise.resolve();
  /** How many pushes were activated. */
  finished = 0;
  /** Why the latest push went no further. */
  refusal: string | null = null;

  constructor(private readonly engine: Engine) {}

  /** Module hashes of the app, for clients that upload only what changed. */
  configHashes(): unknown {
    const app = this.engine.deployment.definitions.get("");
    return {
      config: { functions: "convex/" },
      moduleHashes: (app?.sources ?? []).map((module) => ({ path: module.path, hash: moduleHash(module), environment: module.environment })),
      udfServerVersion: app?.serverVersion ?? null,
      nodeVersion: null,
      nodeDependencies: [],
    };
  }

  /** Runners know the modules of one push under evaluation, so pushes are evaluated one after the other. */
  start(body: Record<string, unknown>): Promise<unknown> {
    const started = this.evaluating.then(() => this.startNow(body));
    this.evaluating = started.catch(() => undefined);
    return started;
  }

  private startNow(body: Record<string, unknown>): Promise<unknown> {
    return this.noting(async () => {
      const definitions = decodePush(body, this.engine.deployment.definitions.get("")?.sources ?? []);
      const outside = outsidePackages(body);
      const deployment = await prefixed(async () => {
        this.checkPackages(outside);
        const found = await this.evaluate(definitions, body["forCodegen"] === true);
        checkTableCount(this.engine, found);
        return found;
      });
      const id = randomUUID();
      this.pending = { id, deployment, env: this.envKey() };
      this.engine.warmActions(deployment);
      return describePush(this.engine, id, deployment);
    });
  }

  /** Keeps the reason of a refusal until the next push begins. */
  private async noting<T>(work: () => T | Promise<T>): Promise<T> {
    this.refusal = null;
    try {
      return await work();
    } catch (error) {
      this.refusal = error instanceof UserError ? `${error.code}: ${error.message}` : INTERNAL_MESSAGE;
      throw error;
    }
  }

  private checkPackages(names: readonly string[]): void {
    if (names.length === 0 || this.engine.packages !== null) return;
    throw new UserError("InvalidExternalModules", `Loading the pushed modules encountered the following error:\nNo packages are installed for ${names.join(", ")}`);
  }

  /** The providers that the running auth config names when the variables are these; evaluated between pushes. */
  authWith(variables: ReadonlyMap<string, string>): Promise<readonly AuthProvider[]> {
    const { engine } = this;
    const sources = engine.deployment.definitions.get("")?.sources.filter((module) => module.path === AUTH_PATH) ?? [];
    if (sources.length === 0) return Promise.resolve(engine.deployment.auth);
    const evaluated = this.evaluating.then(async () => {
      const def = `auth:${randomUUID()}`;
      const evaluator = new Evaluator(engine, [{ def, sources }]);
      try {
        return await evaluateAuth(evaluator, def, sources, { ...Object.fromEntries(variables), ...engine.builtinEnv() });
      } finally {
        evaluator.close();
      }
    });
    this.evaluating = evaluated.catch(() => undefined);
    return evaluated;
  }

  forget(): void {
    this.pending = null;
  }

  private envKey(): string {
    return JSON.stringify([...this.engine.env]);
  }

  private async evaluate(definitions: readonly RawDefinition[], forCodegen: boolean): Promise<Deployment> {
    const { engine } = this;
    const prefix = `push:${randomUUID()}:`;
    const evaluator = new Evaluator(
      engine,
      definitions.map((raw) => ({ def: prefix + raw.path, sources: withSpecials(raw) })),
    );
    try {
      const env = { ...Object.fromEntries(engine.env), ...engine.builtinEnv() };
      const analysed = new Map<string, { raw: RawDefinition; modules: Map<string, ModuleInfo>; schema: Schema | null }>();
      let auth: AuthProvider[] = [];
      for (const raw of definitions) {
        const isApp = raw.path === "";
        const def = prefix + raw.path;
        const found = await this.analyse(evaluator, def, raw, isApp ? env : engine.builtinEnv());
        if (isApp) auth = await evaluateAuth(evaluator, def, raw.sources, env);
        analysed.set(raw.path, { raw, modules: found, schema: await evaluateSchema(evaluator, def, raw) });
      }
      const complete = await this.evaluateDefinitions(evaluator, prefix, analysed, env);
      const root = instantiate(complete, forCodegen);
      return new Deployment(complete, root, auth, engine.importSeed, engine.importNow);
    } finally {
      evaluator.close();
    }
  }

  private async analyse(evaluator: Evaluator, def: string, raw: RawDefinition, env: Record<string, string>): Promise<Map<string, ModuleInfo>> {
    const sources = raw.sources.filter(isFunctionModule).sort((a, b) => byPathComponents(a.path, b.path));
    if (sources.length > MAX_MODULES) throw new UserError("InvalidModules", `Too many function files (${sources.length} > maximum ${MAX_MODULES})`);
    const found = new Map<string, ModuleInfo>();
    for (const module of sources) found.set(module.path, await analyzeModule(evaluator, def, module, env, this.engine.clock.nowMs()));
    checkCronTargets(found);
    checkExportTree(found);
    return found;
  }

  private async evaluateDefinitions(
    evaluator: Evaluator,
    prefix: string,
    analysed: ReadonlyMap<string, { raw: RawDefinition; modules: Map<string, ModuleInfo>; schema: Schema | null }>,
    env: Record<string, string>,
  ): Promise<Map<string, Definition>> {
    const dependencies = new Map([...analysed].map(([path, { raw }]) => [path, raw.dependencies]));
    const names: Record<string, string> = {};
    const complete = new Map<string, Definition>();
    for (const path of postOrder([...analysed.keys()], dependencies)) {
      const { raw, modules: found, schema } = analysed.get(path) as { raw: RawDefinition; modules: Map<string, ModuleInfo>; schema: Schema | null };
      const text =
        raw.config === null
          ? JSON.stringify({ definitionType: { type: "app" }, childComponents: [], httpMounts: {}, exports: { type: "branch", branch: [] } })
          : await evaluator
              .run({ what: "config", def: prefix + path, path: CONFIG_PATH, env: path === "" ? env : {}, components: names })
              .catch(evaluationFailure);
      const config = parseConfig(path, text);
      names[path] = config.name;
      complete.set(path, { path, sources: raw.sources, modules: found, schema, config, serverVersion: raw.serverVersion });
    }
    return complete;
  }

  private find(change: unknown): Pending | null {
    const ids = isJsonObject(change) ? change["schemaIds"] : null;
    const id = isJsonObject(ids) ? ids["push"] : null;
    return this.pending !== null && this.pending.id === id ? this.pending : null;
  }

  waitForSchema(body: Record<string, unknown>): unknown {
    const pending = this.find(body["schemaChange"]);
    if (pending === null) {
      this.refusal = OVERTAKEN;
      return { type: "raceDetected" };
    }
    const found = firstInvalidDocument(this.engine, pending.deployment);
    if (found === null) return { type: "complete" };
    this.refusal = found.error;
    return { type: "failed", ...found };
  }

  finish(body: Record<string, unknown>): Promise<unknown> {
    return this.noting(() => prefixed(() => this.finishNow(body)));
  }

  private async finishNow(body: Record<string, unknown>): Promise<unknown> {
    if (body["dryRun"] === true) this.checked(body);
    else {
      await this.engine.deploy(() => this.checked(body));
      this.finished += 1;
    }
    return { authDiff: { added: [], removed: [] }, definitionDiffs: {}, componentDiffs: {} };
  }

  /** The deployment to activate, after the checks that are made at the last moment. */
  private checked(body: Record<string, unknown>): Deployment {
    const started = body["startPush"];
    const pending = this.find(isJsonObject(started) ? started["schemaChange"] : null);
    if (pending === null) throw new UserError("RaceDetected", OVERTAKEN);
    if (pending.env !== this.envKey()) throw new UserError("RaceDetected", "Environment variables have changed during push");
    const { deployment } = pending;
    this.checkEnvironment(deployment.root as Component);
    const found = firstInvalidDocument(this.engine, deployment);
    if (found !== null) throw new UserError("SchemaValidationFailed", found.error);
    if (body["dryRun"] === true) return deployment;
    checkTableCount(this.engine, deployment);
    this.pending = null;
    return deployment;
  }

  private checkEnvironment(app: Component): void {
    const missing = app.definition.config.env.filter((item) => !item.optional && !this.engine.env.has(item.name)).map((item) => item.name);
    if (missing.length > 0) {
      throw new UserError("MissingEnvironmentVariables", `Required environment variables are not set: ${missing.join(", ")}.`);
    }
    for (const item of app.definition.config.env) {
      const value = this.engine.env.get(item.name);
      if (value !== undefined && checkValue(item.validator, value, { tableName: () => null }) !== null) {
        throw new UserError("InvalidEnvironmentVariable", `Environment variable ${item.name} does not match its declared validator`);
      }
    }
  }
}

/** Errors of everything after the decoding of a request. */
async function prefixed<T>(work: () => T | Promise<T>): Promise<T> {
  const prefix = "Hit an error while pushing:\n";
  try {
    return await work();
  } catch (error) {
    if (error instanceof UserError) throw new UserError(error.code, prefix + error.message, undefined, error.status);
    if (error instanceof JsFailure) throw new UserError("InvalidModules", prefix + error.text);
    throw error;
  }
}

const CONFIG_PATH = "convex.config.js";
const SCHEMA_PATH = "schema.js";

/** Config and schema are modules of their own, evaluated beside the functions. */
function withSpecials(raw: RawDefinition): ModuleSource[] {
  const special = (module: ModuleSource | null, path: string): ModuleSource[] =>
    module === null ? [] : [{ ...module, path, environment: "isolate" }];
  return [...raw.sources, ...special(raw.config, CONFIG_PATH), ...special(raw.schema, SCHEMA_PATH)];
}

async function evaluateSchema(evaluator: Evaluator, def: string, raw: RawDefinition): Promise<Schema | null> {
  if (raw.schema === null) return null;
  const prefix = "Hit an error while evaluating your schema:\n";
  try {
    return parseSchema(await evaluator.run({ what: "schema", def, path: SCHEMA_PATH, env: {} }));
  } catch (error) {
    if (error instanceof UserError) throw new UserError(error.code, `${prefix}${error.message}`);
    if (error instanceof JsFailure) throw new UserError(raw.path === "" ? "Error" : "InvalidSchema", raw.path === "" ? `${prefix}${error.text}` : error.text);
    throw error;
  }
}

async function evaluateAuth(evaluator: Evaluator, def: string, sources: readonly ModuleSource[], env: Record<string, string>): Promise<AuthProvider[]> {
  if (!sources.some((module) => module.path === AUTH_PATH)) return [];
  try {
    return parseAuthConfig(await evaluator.run({ what: "auth", def, path: AUTH_PATH, env }));
  } catch (error) {
    if (error instanceof JsFailure) {
      const missing = /Environment variable (\S+) is used in auth config file but/.exec(error.message);
      throw new UserError(missing === null ? "InvalidAuthConfig" : "AuthConfigMissingEnvironmentVariable", error.text);
    }
    throw error;
  }
}
