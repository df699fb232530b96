/** The body of start_push, decoded. What is wrong with it is refused with `InvalidConfig`, before anything is evaluated. */

import { moduleHash, type ModuleSource } from "../deployment.js";
import { UserError } from "../errors.js";
import { isJsonObject, listOf, objectOf, textOf, type JsonObject } from "../values/json.js";

export interface RawDefinition {
  path: string;
  config: ModuleSource | null;
  dependencies: string[];
  schema: ModuleSource | null;
  sources: ModuleSource[];
  serverVersion: string;
}

const NODE_VERSIONS = ["20", "22", "24"];

function invalid(message: string): never {
  throw new UserError("InvalidConfig", message);
}

/** The app first, then its components. `stored` are the modules that the client need not send again. */
export function decodePush(body: JsonObject, stored: readonly ModuleSource[]): RawDefinition[] {
  if (!isJsonObject(body["appDefinition"])) invalid("Missing appDefinition");
  const app = body["appDefinition"];
  checkNodeVersion(body["nodeVersion"]);
  const definitions: RawDefinition[] = [
    // Older clients send all modules as `functions`.
    decodeDefinition("", app, [...modules(app["functions"]), ...modules(app["changedModules"]), ...unchanged(app["unchangedModuleHashes"], stored)]),
  ];
  const component = (): never => invalid("Invalid component definition in the push");
  for (const json of listOf(body["componentDefinitions"], component)) {
    const raw = objectOf(json, component);
    definitions.push(decodeDefinition(textOf(raw["definitionPath"], component), raw, modules(raw["functions"])));
  }
  for (const definition of definitions) for (const module of definition.sources) checkModulePath(module.path);
  return definitions;
}

/** Names of packages that the bundles leave outside. */
export function outsidePackages(body: JsonObject): string[] {
  const wrong = (): never => invalid("Invalid node dependency in the push");
  return listOf(body["nodeDependencies"], wrong).map((json) => textOf(objectOf(json, wrong)["name"], wrong));
}

function checkNodeVersion(version: unknown): void {
  if (version === undefined || version === null) return;
  if (version === "18") invalid("Node 18 is no longer supported");
  if (typeof version !== "string" || !NODE_VERSIONS.includes(version)) invalid(`Invalid node version: ${typeof version === "string" ? version : JSON.stringify(version)}`);
}

function decodeDefinition(path: string, raw: JsonObject, sources: ModuleSource[]): RawDefinition {
  const wrong = (): never => invalid("Invalid dependency in the push");
  return {
    path,
    config: optionalModule(raw["definition"]),
    dependencies: listOf(raw["dependencies"], wrong).map((json) => textOf(json, wrong)),
    schema: optionalModule(raw["schema"]),
    sources,
    serverVersion: typeof raw["udfServerVersion"] === "string" ? raw["udfServerVersion"] : "",
  };
}

/** Sources of modules that the client did not send again. */
function unchanged(json: unknown, stored: readonly ModuleSource[]): ModuleSource[] {
  const wrong = (): never => invalid("Invalid module hash in the push");
  return listOf(json, wrong).map((item) => {
    const wanted = objectOf(item, wrong);
    const path = textOf(wanted["path"], wrong);
    const found = stored.find((module) => module.path === path);
    const conflict = (code: string, message: string): never => {
      throw new UserError(code, message, undefined, 409);
    };
    if (found === undefined) return conflict("MissingExistingModule", `Module ${path} is not stored`);
    if (found.environment !== wanted["environment"]) conflict("ExistingModuleEnvConflict", `Module ${path} changed its environment`);
    if (moduleHash(found) !== wanted["sha256"]) conflict("ExistingModuleHashConflict", `Module ${path} has changed`);
    return found;
  });
}

function optionalModule(json: unknown): ModuleSource | null {
  return json === null || json === undefined ? null : parseModule(json);
}

function modules(json: unknown): ModuleSource[] {
  return listOf(json, () => invalid("Invalid list of modules in the push")).map(parseModule);
}

function parseModule(json: unknown): ModuleSource {
  const wrong = (): never => invalid("Invalid module in the push");
  const raw = objectOf(json, wrong);
  const module: ModuleSource = {
    path: textOf(raw["path"], wrong),
    source: textOf(raw["source"], wrong),
    environment: raw["environment"] === "node" ? "node" : "isolate",
  };
  if (typeof raw["sourceMap"] === "string") module.sourceMap = raw["sourceMap"];
  return module;
}

/** Each component of a path: letters, digits, `_`, `.`, at most 64 bytes, at least one alphanumeric. */
function checkModulePath(path: string): void {
  const valid = path.split("/").every((part) => /^[A-Za-z0-9_.]{1,64}$/.test(part) && /[A-Za-z0-9]/.test(part));
  if (!valid) {
    invalid(`${path} is not a valid path to a Convex module. Path component can only contain alphanumeric characters, underscores, or periods.`);
  }
  if (path.startsWith("_system/")) invalid(`${path} is not a valid path to a Convex module.`);
}
