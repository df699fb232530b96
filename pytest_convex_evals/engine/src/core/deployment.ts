/** What is deployed: definitions with their modules and analysis, and the tree of components made from them. */

import { createHash } from "node:crypto";

import type { Frame } from "../shared/frames.js";
import type { Schema } from "./schema/schema.js";
import type { Validator } from "./validators/validator.js";

export type UdfKind = "Query" | "Mutation" | "Action";

export interface ModuleSource {
  path: string;
  source: string;
  sourceMap?: string;
  environment: "isolate" | "node";
}

export interface FunctionInfo {
  name: string;
  kind: UdfKind;
  visibility: "public" | "internal" | null;
  /** Null accepts everything. */
  args: Validator | null;
  argsJson: string;
  returns: Validator | null;
  returnsJson: string | null;
}

export interface CronSpec {
  name: string;
  /** `module.js:fn` */
  udfPath: string;
  args: unknown[];
  schedule: CronSchedule;
}
export type CronSchedule =
  | { type: "interval"; seconds: number }
  | { type: "hourly"; minuteUTC?: number }
  | { type: "daily"; hourUTC: number; minuteUTC?: number }
  | { type: "weekly"; dayOfWeek: number; hourUTC: number; minuteUTC?: number }
  | { type: "monthly"; day: number; hourUTC: number; minuteUTC?: number }
  | { type: "cron"; cronExpr: string };

export interface ModuleInfo {
  path: string;
  environment: "isolate" | "node";
  functions: FunctionInfo[];
  httpRoutes: { path: string; method: string }[] | null;
  crons: CronSpec[] | null;
}

export type EnvBinding = { type: "value"; value: string } | { type: "envVar"; name: string };
export interface EnvDeclaration {
  name: string;
  validator: Validator;
  optional: boolean;
}

/** What a convex.config exports, parsed. */
export interface DefinitionConfig {
  raw: Readonly<Record<string, unknown>>;
  name: string;
  children: { name: string; path: string; env: [string, EnvBinding][] }[];
  httpMounts: Map<string, string>;
  httpPrefix: string;
  env: EnvDeclaration[];
}

export interface Definition {
  path: string;
  sources: ModuleSource[];
  modules: Map<string, ModuleInfo>;
  schema: Schema | null;
  config: DefinitionConfig;
  serverVersion: string;
}

export interface Component {
  /** "" for the app, else names joined by "/". */
  path: string;
  name: string;
  definition: Definition;
  parent: Component | null;
  children: Map<string, Component>;
  env: Map<string, EnvBinding>;
  /** Where its routes hang under the site, with a trailing slash; null when not mounted. */
  httpPrefix: string | null;
}

export interface AuthProvider {
  type: "oidc" | "customJwt";
  issuer: string;
  applicationID: string | null;
  jwks: string | null;
  algorithm: string | null;
}

export class Deployment {
  private frames: { isolate: Frame[]; node: Frame[] } | null = null;

  constructor(
    readonly definitions: ReadonlyMap<string, Definition>,
    readonly root: Component | null,
    readonly auth: readonly AuthProvider[],
    readonly importSeed: number,
    readonly importNow: number,
  ) {}

  static empty(): Deployment {
    return new Deployment(new Map(), null, [], 1, 0);
  }

  /** The same code with other providers of identities. */
  withAuth(auth: readonly AuthProvider[]): Deployment {
    return new Deployment(this.definitions, this.root, auth, this.importSeed, this.importNow);
  }

  component(path: string): Component | null {
    let current = this.root;
    for (const name of path === "" ? [] : path.split("/")) current = current?.children.get(name) ?? null;
    return current;
  }

  /** All components, parents first. */
  components(): Component[] {
    const all: Component[] = [];
    const visit = (component: Component): void => {
      all.push(component);
      for (const name of [...component.children.keys()].sort()) visit(component.children.get(name) as Component);
    };
    if (this.root !== null) visit(this.root);
    return all;
  }

  /** The messages that teach a runner the modules. */
  moduleFrames(node: boolean): Frame[] {
    if (this.frames === null) {
      this.frames = { isolate: [], node: [] };
      for (const definition of this.definitions.values()) {
        this.frames.isolate.push(...framesOf(definition.path, definition.sources, false));
        this.frames.node.push(...framesOf(definition.path, definition.sources, true));
      }
    }
    return node ? this.frames.node : this.frames.isolate;
  }
}

export function framesOf(def: string, sources: readonly ModuleSource[], node: boolean): Frame[] {
  const frames: Frame[] = [];
  for (const module of sources) {
    if ((module.environment === "node") !== node) continue;
    frames.push({ header: { t: "module", def, path: module.path, node }, payload: module.source });
    if (module.sourceMap !== undefined) frames.push({ header: { t: "sourceMap", def, path: module.path, node }, payload: module.sourceMap });
  }
  return frames;
}

/** Source, then source map: how the CLI recognises unchanged modules. */
export function moduleHash(module: ModuleSource): string {
  const hash = createHash("sha256").update(module.source);
  if (module.sourceMap !== undefined) hash.update(module.sourceMap);
  return hash.digest("hex");
}

export function findFunction(component: Component, modulePath: string, name: string): { module: ModuleInfo; fn: FunctionInfo } | null {
  const module = component.definition.modules.get(modulePath);
  const fn = module?.functions.find((candidate) => candidate.name === name);
  return module === undefined || fn === undefined ? null : { module, fn };
}
