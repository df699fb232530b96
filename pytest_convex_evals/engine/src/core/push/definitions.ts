/** Component definitions: evaluation of their configs and instantiation into a tree, with the platform's checks. */

import type { Component, Definition, DefinitionConfig, EnvBinding, EnvDeclaration, ModuleInfo } from "../deployment.js";
import { JsFailure, UserError } from "../errors.js";
import { checkValue } from "../validators/check.js";
import { isIdentifier } from "../values/names.js";
import { listOf, objectOf, parseJson, textOf, type JsonObject } from "../values/json.js";
import { isStringLike, isSubset, parseValidator, type Validator } from "../validators/validator.js";

function fail(code: string, message: string): never {
  throw new UserError(code, message);
}

/** Definition paths in an order where dependencies come first. */
export function postOrder(paths: readonly string[], dependencies: ReadonlyMap<string, readonly string[]>): string[] {
  const order: string[] = [];
  const state = new Map<string, "open" | "done">();
  const visit = (path: string): void => {
    if (state.get(path) === "done") return;
    if (state.get(path) === "open") fail("CyclicImport", `Found cyclic definition dependency: ${path}`);
    state.set(path, "open");
    for (const next of dependencies.get(path) ?? []) {
      if (next === "") fail("NoImportAppDuringDefinitionEvaluation", "Can't import the app while evaluating definitions");
      if (!dependencies.has(next)) fail("TypecheckError", `Component definition not found: ${next}`);
      visit(next);
    }
    state.set(path, "done");
    order.push(path);
  };
  for (const path of paths) visit(path);
  return order;
}

export function evaluationFailure(error: unknown): never {
  if (error instanceof JsFailure) fail("InvalidConvexConfig", error.text);
  throw error;
}

export function parseConfig(path: string, text: string): DefinitionConfig {
  const where = path === "" ? "your app" : `component \`${path}\``;
  const broken = (): never => fail("InvalidDefinition", `The default export of \`convex.config.ts\` in ${where} has an invalid value`);
  const raw = objectOf(parseJson(text, broken), broken);
  const type = objectOf(raw["definitionType"], broken);
  if (type["type"] !== (path === "" ? "app" : "childComponent")) broken();
  const component = (json: unknown): string => {
    const name = textOf(json, broken);
    return isIdentifier(name) ? name : fail("InvalidDefinition", `Invalid component name "${name}" in ${where}: it must be an identifier`);
  };
  const mounts = new Map<string, string>();
  for (const [prefix, reference] of Object.entries(objectOf(raw["httpMounts"] ?? {}, broken))) {
    mounts.set(prefix, textOf(reference, broken).replace("_reference/childComponent/", ""));
  }
  return {
    raw,
    name: path === "" ? "" : component(type["name"]),
    children: listOf(raw["childComponents"], broken).map((json) => {
      const child = objectOf(json, broken);
      return { name: component(child["name"]), path: textOf(child["path"], broken), env: parseBindings(child["env"], broken) };
    }),
    httpMounts: mounts,
    httpPrefix: raw["httpPrefix"] === undefined ? "/" : textOf(raw["httpPrefix"], broken),
    env: parseEnv(raw["envVars"], where, broken),
  };
}

function parseBindings(json: unknown, broken: () => never): [string, EnvBinding][] {
  return pairsOf(json, broken).map(([name, binding]) => {
    if (binding["type"] === "value") return [name, { type: "value", value: textOf(binding["value"], broken) }];
    if (binding["type"] === "envVar") return [name, { type: "envVar", name: textOf(binding["name"], broken) }];
    return broken();
  });
}

function parseEnv(json: unknown, where: string, broken: () => never): EnvDeclaration[] {
  return pairsOf(json, broken).map(([name, declared]) => {
    const validator = parseValidator(parseJson(textOf(declared["value"], broken), broken));
    if (!isText(validator)) {
      fail("InvalidEnvVarDeclaration", `Environment variable ${name} in ${where} must be a string, a string literal or a union of these`);
    }
    return { name, validator, optional: declared["optional"] === true };
  });
}

/** A list of names with what belongs to them. */
function pairsOf(json: unknown, broken: () => never): [string, JsonObject][] {
  return listOf(json, broken).map((pair) => {
    const [name, value] = listOf(pair, broken);
    return [textOf(name, broken), objectOf(value, broken)];
  });
}

/** Texts and unions of them; ids are none. */
function isText(validator: Validator): boolean {
  return validator.type === "union" ? validator.members.every(isText) : validator.type !== "id" && isStringLike(validator);
}

/** Builds the tree of components and checks names, environment bindings and HTTP mounts. */
export function instantiate(definitions: ReadonlyMap<string, Definition>, forCodegen: boolean): Component {
  const build = (path: string, definition: Definition, parent: Component | null, name: string, env: [string, EnvBinding][]): Component => {
    const component: Component = {
      path,
      name,
      definition,
      parent,
      children: new Map(),
      env: new Map(env),
      httpPrefix: parent === null ? definition.config.httpPrefix : null,
    };
    if (parent !== null) checkBindings(component, parent, forCodegen);
    for (const child of definition.config.children) {
      if (component.children.has(child.name)) {
        fail("TypecheckError", `Component has multiple child components with the same name: ${child.name}`);
      }
      const childDefinition = definitions.get(child.path);
      if (childDefinition === undefined) fail("TypecheckError", `Component definition not found: ${child.path}`);
      if (isWithin(component, childDefinition)) fail("CyclicImport", `Found cyclic definition dependency: ${child.path}`);
      const childPath = path === "" ? child.name : `${path}/${child.name}`;
      component.children.set(child.name, build(childPath, childDefinition, component, child.name, child.env));
    }
    mount(component);
    return component;
  };
  const root = build("", definitions.get("") as Definition, null, "", []);
  placeMounts(root, "/");
  return root;
}

function isWithin(component: Component, definition: Definition): boolean {
  for (let at: Component | null = component; at !== null; at = at.parent) if (at.definition === definition) return true;
  return false;
}

/** Components without routes cannot be mounted; a mount may not sit on a prefix route of the parent. */
function mount(component: Component): void {
  const routes = component.definition.modules.get("http.js")?.httpRoutes ?? [];
  for (const [prefix, childName] of component.definition.config.httpMounts) {
    const child = component.children.get(childName);
    if (child === undefined) fail("TypecheckError", `Component ${childName} is mounted but not used`);
    if (!hasRoutes(child)) fail("TypecheckError", `Component ${childName} doesn't have any HTTP routes.`);
    if (prefix.includes("*") || prefix.includes("?")) fail("InvalidDefinition", `Invalid httpPrefix ${prefix}`);
    if (routes.some((route) => route.path === `${prefix}*`)) fail("TypecheckError", `Overlap with existing prefix route: ${prefix}`);
  }
}

function hasRoutes(component: Component): boolean {
  return component.definition.modules.get("http.js")?.httpRoutes != null || component.definition.config.httpMounts.size > 0;
}

function placeMounts(component: Component, prefix: string): void {
  for (const [path, childName] of component.definition.config.httpMounts) {
    const child = component.children.get(childName) as Component;
    child.httpPrefix = `${prefix}${path.replace(/^\//, "")}`;
    placeMounts(child, child.httpPrefix);
  }
}

const NO_TABLES = { tableName: () => null };

function checkBindings(component: Component, parent: Component, forCodegen: boolean): void {
  const declared = new Map(component.definition.config.env.map((item) => [item.name, item]));
  const outer = new Map(parent.definition.config.env.map((item) => [item.name, item]));
  for (const [name, binding] of component.env) {
    const wanted = declared.get(name);
    if (wanted === undefined) fail("TypecheckError", `Component ${component.name} has no env var named "${name}"`);
    if (binding.type === "value") {
      if (checkValue(wanted.validator, binding.value, NO_TABLES) !== null) {
        fail("TypecheckError", `Component ${component.name} has an invalid value for env var "${name}"`);
      }
      continue;
    }
    const given = outer.get(binding.name);
    if (given === undefined) fail("TypecheckError", `Component ${component.name} references undeclared parent env var "${binding.name}"`);
    if (given.optional && !wanted.optional) {
      fail("TypecheckError", `Env var "${name}" of component ${component.name} is required, but parent env var "${binding.name}" is optional`);
    }
    if (!isSubset(given.validator, wanted.validator)) {
      fail("TypecheckError", `Env var "${name}" of component ${component.name}: its validator is not satisfied by parent env var "${binding.name}"`);
    }
  }
  if (forCodegen) return;
  for (const item of declared.values()) {
    if (!item.optional && !component.env.has(item.name)) fail("TypecheckError", `Component ${component.name} is missing required env var "${item.name}"`);
  }
}

interface Leaf {
  type: "leaf";
  leaf: string;
}
interface Branch {
  type: "branch";
  branch: [string, Leaf | Branch][];
}

/** The exports of a component: its public functions by file path. */
export function exportsOf(modules: ReadonlyMap<string, ModuleInfo>): Branch {
  const root: Branch = { type: "branch", branch: [] };
  for (const module of modules.values()) {
    for (const fn of module.functions) {
      if (fn.visibility !== "public") continue;
      let node = root;
      for (const part of module.path.replace(/\.js$/, "").split("/")) {
        let next = node.branch.find(([name]) => name === part)?.[1];
        if (next === undefined || next.type === "leaf") {
          next = { type: "branch", branch: [] };
          node.branch.push([part, next]);
        }
        node = next;
      }
      node.branch.push([fn.name, { type: "leaf", leaf: `_reference/function/${module.path}:${fn.name}` }]);
    }
  }
  return root;
}
