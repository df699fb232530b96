/**
 * Builds by contexts of esbuild, which parse files of packages once instead of once for each build.
 *
 * A context is made when the same names are built the second time, and works on a replica of the project. What it cannot build as it
 * would be built in truth is built where it lies, as if there were no context.
 */
import { join } from "node:path";
import type { BuildContext, BuildOptions, BuildResult, PluginBuild } from "esbuild";

import { inputsIn, inTruth, isFaithful } from "./faithful.js";
import { hooksOf, keyOfHooks, pluginsFor, pluginsOf, type Asked } from "./hooks.js";
import { Replica, wayTo } from "./replica.js";

type Esbuild = PluginBuild["esbuild"];

/** A context remembers files of all the projects that it has built. */
const MOST_BUILDS = 200;
const MOST_CONTEXTS = 24;
const MOST_KEYS = 500;
/** Builds in a row without success after which no more are tried. */
const MOST_FAILURES = 3;
/** Cannot stand in JSON. */
const NO_NAME = "\0";

interface Wanted extends Pick<Asked, "hooks" | "inner"> {
  options: BuildOptions;
  project: string;
  set: string;
}

interface Shared {
  replica: Replica;
  context: BuildContext | undefined;
  asked: Asked | undefined;
  builds: number;
  failures: number;
  /** When it was used last, counted in builds. */
  used: number;
}

export class Contexts {
  private builds = 0;
  /** When builds of what has no context were asked for last. */
  private readonly asked = new Map<string, number>();
  /** The one used last comes last. */
  private readonly shared = new Map<string, Shared>();
  private readonly replicas = new Map<string, Replica>();
  private busy = false;

  /** `folder` is for replicas, and for nothing else; without one there are no contexts. */
  constructor(
    private readonly esbuild: Esbuild,
    private folder: string | undefined,
  ) {}

  /** What `esbuild.build` makes of a project and its packages. */
  async build(options: BuildOptions, project: string, set: string): Promise<BuildResult> {
    const way = wayTo(set, project);
    if (this.busy || this.folder === undefined || way === undefined || !isShareable(options)) return await this.esbuild.build(options);
    this.busy = true;
    try {
      const inner: Asked["inner"] = {};
      const hooks = await hooksOf(options.plugins ?? [], options, this.esbuild, inner);
      if (hooks === undefined) return await this.esbuild.build(options);
      const key = JSON.stringify([way, set, keyOfHooks(hooks), bare(options)]).replaceAll(project, NO_NAME);
      const made = this.hasPlace(key) ? await this.again(key, way, this.folder, { hooks, inner, options, project, set }) : undefined;
      return made ?? (await this.esbuild.build({ ...options, plugins: pluginsOf(hooks, inner) }));
    } finally {
      this.busy = false;
    }
  }

  /**
   * Whether the build has a context, or is to have one: what is built for the first time has none, and nothing that is built more often
   * loses its own. So contexts stay of use where more builds take turns than there are contexts.
   */
  private hasPlace(key: string): boolean {
    this.builds += 1;
    if (this.shared.has(key)) return true;
    const before = this.asked.get(key);
    this.asked.delete(key);
    this.asked.set(key, this.builds);
    if (this.asked.size > MOST_KEYS) this.asked.delete(this.asked.keys().next().value as string);
    if (before === undefined) return false;
    const [oldest] = this.shared.values();
    return this.shared.size < MOST_CONTEXTS || before > (oldest as Shared).used;
  }

  /** Undefined where a context is of no help. */
  private async again(key: string, way: string, folder: string, wanted: Wanted): Promise<BuildResult | undefined> {
    try {
      const shared = this.sharedFor(key, () => this.replicaFor(way, folder, wanted));
      if (shared.failures >= MOST_FAILURES || !shared.replica.take(wanted.project)) return undefined;
      shared.failures += 1;
      const result = await rebuilt(shared, wanted, this.esbuild);
      if (result !== undefined) shared.failures = 0;
      return result;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
      // The folder is full, or gone.
      this.folder = undefined;
      return undefined;
    }
  }

  private replicaFor(way: string, folder: string, { options, set }: Wanted): Replica {
    const withSources = options.sourcesContent !== false;
    const key = JSON.stringify([way, set, withSources]);
    let replica = this.replicas.get(key);
    if (replica === undefined) {
      replica = new Replica(join(folder, String(this.replicas.size)), way, set, withSources);
      this.replicas.set(key, replica);
    }
    return replica;
  }

  private sharedFor(key: string, replicaFor: () => Replica): Shared {
    const shared = this.shared.get(key) ?? { replica: replicaFor(), context: undefined, asked: undefined, builds: 0, failures: 0, used: 0 };
    shared.used = this.builds;
    this.asked.delete(key);
    if (++shared.builds > MOST_BUILDS) {
      end(shared);
      shared.builds = 1;
      shared.failures = 0;
    }
    this.shared.delete(key);
    this.shared.set(key, shared);
    for (const [oldest, one] of [...this.shared].slice(0, -MOST_CONTEXTS)) {
      this.shared.delete(oldest);
      end(one);
    }
    return shared;
  }
}

/** Builds of functions and of components; from builds for Node the CLI learns more than their result. */
function isShareable({ entryPoints, platform, write, metafile }: BuildOptions): boolean {
  return platform === "browser" && write === false && metafile === true && Array.isArray(entryPoints) && entryPoints.length > 0 && entryPoints.every((path) => typeof path === "string");
}

function bare({ plugins: _, absWorkingDir: __, ...others }: BuildOptions): BuildOptions {
  return others;
}

/** Not waited for: the process behind it may be gone. */
function end(shared: Shared): void {
  void shared.context?.dispose().catch(() => undefined);
  shared.context = undefined;
}

async function rebuilt(shared: Shared, { hooks, inner, options, project, set }: Wanted, esbuild: Esbuild): Promise<BuildResult | undefined> {
  const { replica } = shared;
  const asked: Asked = { hooks, inner, toTruth: (path) => replica.toTruth(path, project), fromTruth: (path) => replica.fromTruth(path, project) };
  shared.asked = asked;
  try {
    shared.context ??= await esbuild.context(inReplica(options, asked, replica, () => nowIn(shared)));
    let result = await shared.context.rebuild();
    const linked = inputsIn(result, replica.project, set);
    if (linked.length > 0 && linked.every(({ format }) => format === "esm")) {
      replica.copy(linked.map(({ path }) => path));
      result = await shared.context.rebuild();
    }
    return isFaithful(result, replica) ? inTruth(result, replica, asked.toTruth) : undefined;
  } catch (error) {
    // Mistakes in the sources are told where they are.
    if (Array.isArray((error as { errors?: unknown }).errors)) return undefined;
    throw error;
  } finally {
    shared.asked = undefined;
  }
}

function nowIn({ asked }: Shared): Asked {
  if (asked === undefined) throw new Error("no build is under way");
  return asked;
}

function inReplica(options: BuildOptions, { hooks, fromTruth }: Asked, replica: Replica, now: () => Asked): BuildOptions {
  const { entryPoints, outbase, ...others } = options;
  return {
    ...others,
    entryPoints: (entryPoints as string[]).map(fromTruth),
    ...(outbase === undefined ? {} : { outbase: fromTruth(outbase) }),
    absWorkingDir: replica.project,
    logLevel: "silent",
    plugins: pluginsFor(hooks, now),
  };
}
