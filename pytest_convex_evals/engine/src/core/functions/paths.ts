/** Names of functions: `dir/mod.js:fn`, references through components, and handles. */

import { createHash } from "node:crypto";

import type { Component, Deployment } from "../deployment.js";
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

export class Handles {
  private readonly byId = new Map<string, { component: string; path: FunctionPath }>();

  create(target: Target): string {
    const id = handleId(target);
    this.byId.set(id, { component: target.component.path, path: target.path });
    return `function://${id}#${shortName(target.path)}`;
  }

  resolve(deployment: Deployment, handle: string): Target {
    const id = /^function:\/\/([^#]*)/.exec(handle)?.[1] ?? "";
    const found = this.byId.get(id) ?? search(deployment, id);
    const component = found === undefined ? null : deployment.component(found.component);
    if (found === undefined || component === null || component.definition.modules.get(found.path.module)?.functions.some((fn) => fn.name === found.path.fn) !== true) {
      throw new UserError("FunctionHandleNotFound", "Function handle not found");
    }
    return { component, path: found.path };
  }
}

function handleId(target: Target): string {
  return createHash("sha256").update(`${target.component.path}\n${fullName(target.path)}`).digest("hex").slice(0, 32);
}

/** The function of a handle that an earlier process gave out. */
function search(deployment: Deployment, id: string): { component: string; path: FunctionPath } | undefined {
  for (const component of deployment.components()) {
    for (const module of component.definition.modules.values()) {
      for (const { name } of module.functions) {
        const path = { module: module.path, fn: name };
        if (handleId({ component, path }) === id) return { component: component.path, path };
      }
    }
  }
  return undefined;
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
