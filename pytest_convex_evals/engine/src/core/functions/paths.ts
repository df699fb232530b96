/** Names of functions: `dir/mod.js:fn`, references through components, and handles. */

import { createHash } from "node:crypto";

import { findFunction, type Component, type Deployment } from "../deployment.js";
import { UserError } from "../errors.js";

export interface FunctionPath {
  /** With `.js`. */
  module: string;
  fn: string;
}
export interface Target {
  component: Component;
  path: FunctionPath;
}

/** Input may omit `.js` and `:fn` (then `default`); it is split at the last colon. */
export function parseFunctionPath(text: string): FunctionPath {
  const colon = text.lastIndexOf(":");
  const module = colon === -1 ? text : text.slice(0, colon);
  const fn = colon === -1 ? "default" : text.slice(colon + 1);
  if (module === "" || fn === "" || !/^[A-Za-z0-9_./-]+$/.test(module)) {
    throw new UserError("BadConvexFunctionIdentifier", `${text} is not a valid path to a Convex function.`);
  }
  return { module: module.endsWith(".js") ? module : `${module}.js`, fn };
}

/** `mod:fn`, with `:default` stripped: the form of messages about missing functions. */
export function shortName(path: FunctionPath): string {
  const module = path.module.replace(/\.js$/, "");
  return path.fn === "default" ? module : `${module}:${path.fn}`;
}

export function fullName(path: FunctionPath): string {
  return `${path.module}:${path.fn}`;
}

/** The address in a system call: a name, a reference or a handle. */
export interface Address {
  name?: unknown;
  reference?: unknown;
  functionHandle?: unknown;
}

/**
 * Handles name functions of the whole tree. Their ids follow from what they name, so a handle that was stored outlives pushes: it
 * is dead while its function is gone and works again when the function is back.
 */
export class Handles {
  private readonly known = new WeakMap<Deployment, ReadonlyMap<string, Target>>();

  create(target: Target): string {
    if (findFunction(target.component, target.path.module, target.path.fn) === null) {
      throw new UserError("FunctionHandleNotFound", `Function handle not found: there is no function '${shortName(target.path)}'.`);
    }
    return `function://${handleId(target)}#${shortName(target.path)}`;
  }

  resolve(deployment: Deployment, handle: string): Target {
    const found = this.targets(deployment).get(/^function:\/\/([^#]*)/.exec(handle)?.[1] ?? "");
    if (found === undefined) throw new UserError("FunctionHandleNotFound", "Function handle not found");
    return found;
  }

  private targets(deployment: Deployment): ReadonlyMap<string, Target> {
    const present = this.known.get(deployment);
    if (present !== undefined) return present;
    const targets = new Map<string, Target>();
    for (const component of deployment.components()) {
      for (const module of component.definition.modules.values()) {
        for (const fn of module.functions) {
          const target = { component, path: { module: module.path, fn: fn.name } };
          targets.set(handleId(target), target);
        }
      }
    }
    this.known.set(deployment, targets);
    return targets;
  }
}

function handleId({ component, path }: Target): string {
  return createHash("sha256").update(`${component.path}\n${fullName(path)}`).digest("hex").slice(0, 32);
}

export function resolveAddress(deployment: Deployment, handles: Handles, from: Component, address: Address): Target {
  if (typeof address.functionHandle === "string") return handles.resolve(deployment, address.functionHandle);
  if (typeof address.name === "string") return { component: from, path: parseFunctionPath(address.name) };
  if (typeof address.reference === "string") return resolveReference(from, address.reference);
  throw new UserError("InvalidReference", "Invalid function reference");
}

function resolveReference(from: Component, reference: string): Target {
  const parts = reference.split("/");
  if (parts[0] !== "_reference") throw new UserError("InvalidReference", `Invalid reference ${reference}`);
  if (parts[1] === "function") {
    return { component: from, path: parseFunctionPath(parts.slice(2).join("/")) };
  }
  if (parts[1] !== "childComponent" || parts.length < 5) throw new UserError("InvalidReference", `Invalid reference ${reference}`);
  const child = from.children.get(parts[2] as string);
  const attributes = parts.slice(3).join(".");
  if (child === undefined) throw new UserError("InvalidReference", `Couldn't resolve ${parts[2] as string}.${attributes}`);
  const path: FunctionPath = { module: `${parts.slice(3, -1).join("/")}.js`, fn: parts[parts.length - 1] as string };
  const fn = child.definition.modules.get(path.module)?.functions.find((candidate) => candidate.name === path.fn);
  if (fn === undefined || fn.visibility !== "public") {
    throw new UserError("InvalidReference", `Child component ComponentName(Identifier("${parts[2] as string}")) does not export ${attributes}`);
  }
  return { component: child, path };
}
