/** From the runner's description of a module to what the deployment knows about it, with the checks of a push. */

import type { CronSchedule, CronSpec, FunctionInfo, ModuleInfo, ModuleSource, UdfKind } from "../deployment.js";
import { JsFailure, UserError } from "../errors.js";
import { parseFunctionPath } from "../functions/paths.js";
import { checkSchedule } from "../time/crons.js";
import { listOf, objectOf, parseJson, textOf, type JsonObject } from "../values/json.js";
import { isIdentifier } from "../values/names.js";
import { parseValidator, validatorJson, type Validator } from "../validators/validator.js";
import type { Evaluator } from "./evaluate.js";

interface DescribedFunction {
  name: string;
  udfType: UdfKind | "HttpAction";
  visibility: "public" | "internal" | null;
  args: string | null;
  returns: string | null;
  position: number;
}

export const AUTH_PATH = "auth.config.js";
const MAX_CRON_ARGS = 1024 * 1024;

function invalid(message: string, code: string): never {
  throw new UserError(code, message);
}

function invalidModule(message: string): never {
  return invalid(`Loading the pushed modules encountered the following\n    error:\n${message}`, "InvalidModules");
}

export function isFunctionModule(module: ModuleSource): boolean {
  return !module.path.startsWith("_deps/") && module.path !== AUTH_PATH;
}

export async function analyzeModule(evaluator: Evaluator, def: string, module: ModuleSource, env: Record<string, string>, nowMs: number): Promise<ModuleInfo> {
  const node = module.environment === "node";
  let text: string;
  try {
    text = await evaluator.run({ what: "analyze", def, path: module.path, env, node });
  } catch (error) {
    if (error instanceof UserError) invalidModule(error.message);
    if (error instanceof JsFailure) invalidModule(`Failed to analyze ${module.path}: ${error.text}`);
    throw error;
  }
  const described = objectOf(parseJson(text, malformed), malformed);
  const all = listOf(described["functions"], malformed).map(parseFunction);
  const sorted = all.map((fn, at) => ({ fn, at })).sort((a, b) => a.fn.position - b.fn.position || a.at - b.at);
  const functions: FunctionInfo[] = [];
  for (const { fn } of sorted) {
    if (node && fn.udfType !== "Action") {
      invalidModule(`\`${fn.name}\` defined in \`${module.path}\` is a ${fn.udfType} function. Only actions can be defined in Node.js. See https://docs.convex.dev/functions/actions for more details.`);
    }
    if (fn.udfType === "HttpAction") continue;
    if (!isIdentifier(fn.name)) invalid(`Invalid function name used in \`${module.path}\`: "${fn.name}"`, "InvalidFunctionName");
    functions.push(functionInfo(module.path, fn));
  }
  return {
    path: module.path,
    environment: module.environment,
    functions,
    httpRoutes: described["httpRoutes"] === undefined ? null : listOf(described["httpRoutes"], malformed).map(parseRoute),
    crons: described["crons"] === undefined ? null : parseCrons(described["crons"], nowMs),
  };
}

/** The runner describes modules of others: what it says has the right shape or is refused. */
function malformed(): never {
  return invalidModule("The description of a module is malformed");
}

const UDF_TYPES: ReadonlySet<unknown> = new Set(["Query", "Mutation", "Action", "HttpAction"]);
const VISIBILITIES: ReadonlySet<unknown> = new Set(["public", "internal", null]);

function parseFunction(json: unknown): DescribedFunction {
  const raw = objectOf(json, malformed);
  const optionalText = (value: unknown): string | null => (value === null ? null : textOf(value, malformed));
  if (!UDF_TYPES.has(raw["udfType"]) || !VISIBILITIES.has(raw["visibility"]) || typeof raw["position"] !== "number") malformed();
  return {
    name: textOf(raw["name"], malformed),
    udfType: raw["udfType"] as DescribedFunction["udfType"],
    visibility: raw["visibility"] as DescribedFunction["visibility"],
    args: optionalText(raw["args"]),
    returns: optionalText(raw["returns"]),
    position: raw["position"] as number,
  };
}

function parseRoute(json: unknown): { path: string; method: string } {
  const raw = objectOf(json, malformed);
  return { path: textOf(raw["path"], malformed), method: textOf(raw["method"], malformed) };
}

function functionInfo(path: string, fn: DescribedFunction): FunctionInfo {
  const args = validator(path, fn.name, "args", fn.args);
  if (args !== null && args.type !== "object" && args.type !== "any") {
    invalidModule(`Invalid JSON returned from ${path}:${fn.name}.exportArgs(): Args validator must be an object or any`);
  }
  const returns = validator(path, fn.name, "returns", fn.returns);
  return {
    name: fn.name,
    kind: fn.udfType as UdfKind,
    visibility: fn.visibility,
    args,
    argsJson: JSON.stringify(args === null ? { type: "any" } : validatorJson(args)),
    returns,
    returnsJson: returns === null ? null : JSON.stringify(validatorJson(returns)),
  };
}

function validator(path: string, name: string, which: "args" | "returns", text: string | null): Validator | null {
  if (text === null) return null;
  const method = which === "args" ? "exportArgs" : "exportReturns";
  const json = parseJson(text, () => invalidModule(`Invalid JSON returned from ${path}:${name}.${method}(): not JSON`));
  if (json === null) return null;
  try {
    return parseValidator(json);
  } catch (error) {
    if (error instanceof UserError) invalidModule(`Error in ${which} validator: ${path}:${name}: ${error.message}`);
    throw error;
  }
}

function parseCrons(json: unknown, nowMs: number): CronSpec[] {
  const wrong = (): never => invalidModule("The default export of `convex/crons.js` is not a Crons object.");
  const crons = objectOf(json, wrong);
  return Object.keys(crons)
    .sort()
    .map((name) => {
      const cron = objectOf(crons[name], wrong);
      const args = [...listOf(cron["args"], wrong)];
      if (!/^[ -~]*$/.test(name)) invalid(`Invalid cron identifier ${name}`, "InvalidCron");
      if (JSON.stringify(args).length >= MAX_CRON_ARGS) invalid(`Arguments of the cron job '${name}' are too large`, "InvalidCron");
      const schedule = parseSchedule(name, objectOf(cron["schedule"], wrong));
      checkSchedule(schedule, nowMs);
      const { module, fn } = parseFunctionPath(textOf(cron["name"], wrong));
      return { name, udfPath: `${module}:${fn}`, args, schedule };
    });
}

function parseSchedule(cron: string, raw: JsonObject): CronSchedule {
  const type = raw["type"];
  const wrong = (what: string): never => invalid(`The cron job '${cron}' has an invalid ${what}`, "InvalidCron");
  const number = (key: string): number => {
    const value = raw[key];
    return typeof value === "number" ? value : wrong(key);
  };
  const amount = (key: string): number => (raw[key] === undefined ? 0 : number(key));
  const minute = raw["minuteUTC"] === undefined ? {} : { minuteUTC: number("minuteUTC") };
  switch (type) {
    case "interval": {
      const seconds = amount("seconds") + 60 * amount("minutes") + 3600 * amount("hours");
      if (!(seconds > 0)) invalid("Interval must be positive", "InvalidCron");
      return { type, seconds };
    }
    case "hourly":
      return { type, ...minute };
    case "daily":
      return { type, hourUTC: number("hourUTC"), ...minute };
    case "weekly":
      return { type, dayOfWeek: dayOfWeek(raw["dayOfWeek"]) ?? wrong("dayOfWeek"), hourUTC: number("hourUTC"), ...minute };
    case "monthly":
      return { type, day: number("day"), hourUTC: number("hourUTC"), ...minute };
    case "cron":
      return { type, cronExpr: textOf(raw["cron"] ?? raw["cronExpr"], () => wrong("cron expression")) };
    default:
      return wrong("schedule");
  }
}

const DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/** Days come as names or as numbers from Sunday on. */
function dayOfWeek(value: unknown): number | null {
  const day = typeof value === "string" ? DAYS.indexOf(value.toLowerCase()) : value;
  return typeof day === "number" && Number.isInteger(day) && day >= 0 && day <= 6 ? day : null;
}

/** Cron targets must exist in the same component and be schedulable. */
export function checkCronTargets(modules: ReadonlyMap<string, ModuleInfo>): void {
  for (const cron of modules.get("crons.js")?.crons ?? []) {
    const { module, fn } = parseFunctionPath(cron.udfPath);
    const target = modules.get(module)?.functions.find((candidate) => candidate.name === fn);
    if (target === undefined) invalid(`The cron job '${cron.name}' schedules a function that does not exist: ${cron.udfPath}`, "InvalidCron");
    if (target.kind === "Query") {
      invalid(`The cron job '${cron.name}' schedules a query function, only actions and mutations can be scheduled: ${cron.udfPath}`, "InvalidCron");
    }
  }
}

/** A public function `x` of `m` and a public function of a module `m/x` want the same name. */
export function checkExportTree(modules: ReadonlyMap<string, ModuleInfo>): void {
  const folders = new Set<string>();
  for (const module of modules.values()) {
    if (!module.functions.some((fn) => fn.visibility === "public")) continue;
    const parts = module.path.replace(/\.js$/, "").split("/");
    for (let length = 1; length <= parts.length; length++) folders.add(parts.slice(0, length).join("/"));
  }
  for (const module of modules.values()) {
    for (const fn of module.functions) {
      const full = `${module.path.replace(/\.js$/, "")}/${fn.name}`;
      if (fn.visibility === "public" && folders.has(full)) {
        throw new UserError("InvalidExport", `Export ${full} conflicts with existing export`);
      }
    }
  }
}

/** Modules sorted by path components, so that `a/b.js` comes before `a.js`. */
export function byPathComponents(a: string, b: string): number {
  const pa = a.split("/");
  const pb = b.split("/");
  for (let i = 0; i < Math.min(pa.length, pb.length); i++) {
    const x = pa[i] as string;
    const y = pb[i] as string;
    if (x !== y) return x < y ? -1 : 1;
  }
  return pa.length - pb.length;
}
