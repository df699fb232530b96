/**
 * Method `deploy`: what `convex dev --once --typecheck disable` of the project's own `convex` does, without its process.
 *
 * Requests are handled one after the other, so the working folder of this process may be that of the project meanwhile.
 */
import { readFileSync, existsSync } from "node:fs";
import { join } from "node:path";

import { RequestError } from "../request.js";
import { libraryOf, type Library } from "./library.js";
import { SCRATCH } from "./stage.js";
import { Unfit, type UnfitCode } from "./unfit.js";

/** How a push ended; `unfit` leaves it to the CLI in a process of its own. */
export type Deployed = { outcome: "pushed" | "refused"; said: string } | { outcome: "unfit"; code: UnfitCode; reason: string };

interface DeployParams {
  project: string;
  /** The package store. */
  store: string;
  url: string;
  adminKey: string;
}

/** Errors of the CLI after which it ends; after all others it tries again. */
const FINAL = new Set<unknown>(["fatal", "invalid filesystem data", "invalid filesystem or env vars"]);

function read(params: unknown): DeployParams {
  const { project, store, url, adminKey } = (params ?? {}) as Record<string, unknown>;
  if (![project, store, url, adminKey].every((value) => typeof value === "string")) {
    throw new RequestError("bad_request", "project, store, url and adminKey are needed");
  }
  return { project, store, url, adminKey } as DeployParams;
}

/** Push a project to a backend. */
export async function deploy(params: unknown): Promise<Deployed> {
  const wanted = read(params);
  try {
    requirePlain(wanted.project);
    return await push(libraryOf(wanted.project, wanted.store), wanted);
  } catch (error) {
    if (error instanceof Unfit) return { outcome: "unfit", code: error.code, reason: error.message };
    throw error;
  }
}

/** What `convex dev` looks at before it pushes is plain. */
function requirePlain(project: string): void {
  const { dependencies, devDependencies, peerDependencies } = jsonOf(join(project, "package.json"));
  const listed = [dependencies, devDependencies, peerDependencies].some((group) => typeof group === "object" && group !== null && "convex" in group);
  if (!listed) {
    throw new Unfit("manifest", "package.json does not list convex");
  }
  if (!existsSync(join(project, SCRATCH))) throw new Unfit("config", "there is no folder for temporary files beside the project");
  if ("authKit" in jsonOf(join(project, "convex.json"))) throw new Unfit("config", "convex.json asks for AuthKit");
}

/** Some versions read convex.json before they push, and then refuse it in fewer words. */
async function requireConfig({ functions, stage }: Library): Promise<void> {
  if (!existsSync("convex.json") && !existsSync("src/convex.json")) return;
  try {
    await functions.readProjectConfig(new functions.WatchContext(false, null, true));
  } catch {
    throw new Unfit("config", "convex.json is refused");
  } finally {
    stage.end();
    functions.warnedUnknownKeys.clear();
  }
}

function jsonOf(path: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

async function push(library: Library, wanted: DeployParams): Promise<Deployed> {
  const { functions, stage } = library;
  const before = process.cwd();
  process.chdir(wanted.project);
  try {
    stage.backend = new URL(wanted.url).origin;
    await requireConfig(library);
    const abandoned = stage.begin();
    const context = new functions.WatchContext(false, null, true);
    functions.showSpinner("Preparing Convex functions...");
    await Promise.race([functions.runPush(context, optionsFor(wanted)), abandoned]);
    return { outcome: "pushed", said: stage.end() };
  } catch (error) {
    if (error instanceof Unfit) throw error;
    if (error instanceof functions.Crash && isFinal(error.errorType)) return { outcome: "refused", said: stage.end() };
    if (error instanceof functions.Crash && error.errorType !== undefined) throw new Unfit("transient", `the CLI would try again: ${stage.end()}`);
    throw new Unfit("defect", `the CLI broke: ${String(error)}`);
  } finally {
    functions.stopSpinner();
    stage.end();
    process.chdir(before);
  }
}

function isFinal(errorType: unknown): boolean {
  return FINAL.has(errorType) || (typeof errorType === "object" && errorType !== null && "invalid filesystem or db data" in errorType);
}

/** As `convex dev --once --typecheck disable --url … --admin-key …` has them, in all versions. */
function optionsFor({ url, adminKey }: DeployParams): Record<string, unknown> {
  return {
    url,
    adminKey,
    deploymentName: null,
    verbose: false,
    dryRun: false,
    typecheck: "disable",
    typecheckComponents: false,
    debug: false,
    debugNodeApis: false,
    codegen: true,
    liveComponentSources: false,
    pushAllModules: false,
    largeIndexDeletionCheck: "no verification",
    largeIndexBackfillCheck: "no verification",
    stagedValidatorDeletionCheck: "no verification",
    warnOnSlowSchemaValidation: true,
    message: null,
  };
}
