/** Describing a module without calling its functions: exports, validators, routes, crons, schema, definition, auth config. */

import type { StartOptions } from "../shared/protocol.js";
import { PlatformError } from "./failures.js";

export interface DescribedFunction {
  name: string;
  udfType: "Query" | "Mutation" | "Action" | "HttpAction";
  visibility: "public" | "internal" | null;
  args: string | null;
  returns: string | null;
  /** Offset of the handler in the source, -1 when it is not found there. */
  position: number;
}

/** Errors with a code of the push protocol travel as `code\u0000message`. */
export class CodedError extends PlatformError {
  constructor(code: string, message: string) {
    super(`${code}\u0000${message}`);
  }
}

export function describeModule(namespace: Record<string, unknown>, start: StartOptions, source: string): string {
  switch (start.what) {
    case "schema":
      return describeSchema(namespace);
    case "auth":
      return describeAuth(namespace);
    case "config":
      return describeConfig(namespace, start);
    default:
      return JSON.stringify(describeFunctions(namespace, start.path, source));
  }
}

function describeSchema(namespace: Record<string, unknown>): string {
  const schema = namespace["default"] as { export?: unknown } | null | undefined;
  if (schema === undefined || schema === null) throw new CodedError("MissingSchemaExportError", "Schema file missing default export.");
  const broken = new CodedError("InvalidSchemaExport", "Default export from schema file isn't a Convex schema.");
  if (typeof schema.export !== "function") throw broken;
  let text: unknown;
  try {
    text = (schema.export as () => unknown)();
  } catch {
    throw broken;
  }
  if (typeof text !== "string") throw broken;
  return text;
}

function describeAuth(namespace: Record<string, unknown>): string {
  const config = namespace["default"];
  if (config === undefined || config === null) {
    throw new CodedError("AuthConfigMissingExportError", "auth config file is missing default export");
  }
  return JSON.stringify(config) ?? "null";
}

function describeConfig(namespace: Record<string, unknown>, start: StartOptions): string {
  const path = start.def.replace(/^push:[^:]*:/, "");
  const where = path === "" ? "your app" : `component \`${path}\``;
  const invalid = new CodedError("InvalidDefinition", `The default export of \`convex.config.ts\` in ${where} has an invalid value`);
  const definition = namespace["default"] as { export?: unknown } | null | undefined;
  if (typeof definition !== "object" || definition === null || typeof definition.export !== "function") throw invalid;
  if (Object.keys(namespace).length !== 1) throw invalid;
  return JSON.stringify((definition.export as () => unknown)()) ?? "null";
}

const KINDS = [
  ["isQuery", "Query"],
  ["isMutation", "Mutation"],
  ["isAction", "Action"],
] as const;

function describeFunctions(namespace: Record<string, unknown>, path: string, source: string): Record<string, unknown> {
  const functions: DescribedFunction[] = [];
  for (const name of Object.keys(namespace)) {
    const described = describeFunction(name, namespace[name], path, source);
    if (described !== null) functions.push(described);
  }
  const result: Record<string, unknown> = { functions };
  if (path === "http.js") result["httpRoutes"] = describeRoutes(namespace["default"], source);
  if (path === "crons.js") result["crons"] = describeCrons(namespace["default"]);
  return result;
}

function describeFunction(name: string, value: unknown, path: string, source: string): DescribedFunction | null {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return null;
  const object = value as Record<string, unknown>;
  if ("isHttp" in object && !("isRouter" in object)) {
    return { name, udfType: "HttpAction", visibility: null, args: null, returns: null, position: -1 };
  }
  const kinds = KINDS.filter(([flag]) => flag in object);
  if (kinds.length !== 1) return null;
  const isPublic = "isPublic" in object;
  const isInternal = "isInternal" in object;
  if (isPublic && isInternal) return null;
  const handler = object["_handler"];
  return {
    name,
    udfType: (kinds[0] as (typeof KINDS)[number])[1],
    visibility: isPublic ? "public" : isInternal ? "internal" : null,
    args: exported(object, "exportArgs", path, name),
    returns: exported(object, "exportReturns", path, name),
    position: typeof handler === "function" ? source.indexOf(Function.prototype.toString.call(handler)) : -1,
  };
}

function exported(object: Record<string, unknown>, method: string, path: string, name: string): string | null {
  const call = object[method];
  if (typeof call !== "function") return null;
  const text = (call as () => unknown).call(object);
  if (typeof text !== "string") throw new CodedError("InvalidModules", `Invalid JSON returned from ${path}:${name}.${method}(): not a string`);
  return text;
}

const METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];

function describeRoutes(router: unknown, source: string): unknown[] {
  if (router === undefined || router === null) {
    throw new CodedError("InvalidModules", "`convex/http.js` must have a default export of a Router.");
  }
  const object = router as { isRouter?: unknown; getRoutes?: unknown };
  if (typeof router !== "object" || object.isRouter !== true) {
    throw new CodedError("InvalidModules", "The default export of `convex/http.js` is not a Router.");
  }
  const wrong = (detail: string): never => {
    throw new CodedError("InvalidModules", `The \`getRoutes()\` method of Router did not return the expected type. ${detail}`);
  };
  if (typeof object.getRoutes !== "function") return wrong("getRoutes is not a function");
  const routes = (object.getRoutes as () => unknown).call(router);
  if (!Array.isArray(routes)) return wrong("not an array");
  return routes.map((route: unknown, at) => {
    if (!Array.isArray(route) || route.length !== 3) return wrong(`arr[${at}] not an array of three`);
    const [path, method, action] = route as [unknown, unknown, Record<string, unknown> | null];
    if (typeof path !== "string") return wrong(`arr[${at}][0] not a string`);
    if (typeof method !== "string" || !METHODS.includes(method)) return wrong(`arr[${at}][1] not a routable method`);
    if ((typeof action !== "object" && typeof action !== "function") || action === null || !("isHttp" in action)) {
      return wrong(`arr[${at}][2] not an HttpAction`);
    }
    const handler = action["_handler"];
    return { path, method, position: typeof handler === "function" ? source.indexOf(Function.prototype.toString.call(handler)) : -1 };
  });
}

function describeCrons(crons: unknown): unknown {
  if (crons === undefined || crons === null) {
    throw new CodedError("InvalidModules", "`convex/crons.js` must have a default export of a Crons object.");
  }
  const object = crons as { isCrons?: unknown; export?: unknown };
  if (typeof crons !== "object" || object.isCrons !== true || typeof object.export !== "function") {
    throw new CodedError("InvalidModules", "The default export of `convex/crons.js` is not a Crons object.");
  }
  return JSON.parse(String((object.export as () => unknown).call(crons)));
}
