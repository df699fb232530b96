/**
 * Plugins of a push in a build that outlives it.
 *
 * A context of esbuild keeps the plugins that it was made with, and the CLI makes new ones for each build, which remember what they were
 * asked. So what a plugin registers is written down, and the context asks whoever registered the same in the build of the moment. In
 * between, names of files are exchanged for those that they stand for.
 */
import type { OnLoadArgs, OnLoadOptions, OnLoadResult, OnResolveArgs, OnResolveOptions, OnResolveResult, Plugin, PluginBuild, ResolveOptions } from "esbuild";

type Answer<Result> = Result | null | undefined | Promise<Result | null | undefined>;

interface Resolves {
  kind: "resolve";
  plugin: string;
  options: OnResolveOptions;
  run: (args: OnResolveArgs) => Answer<OnResolveResult>;
}

interface Loads {
  kind: "load";
  plugin: string;
  options: OnLoadOptions;
  run: (args: OnLoadArgs) => Answer<OnLoadResult>;
}

export type Hook = Resolves | Loads;

/** What is asked at the moment, and by which names. */
export interface Asked {
  hooks: readonly Hook[];
  toTruth: (path: string) => string;
  fromTruth: (path: string) => string;
  /** What the plugins have for their build; they were set up before there was one. */
  inner: { resolve?: PluginBuild["resolve"] };
}

/** What plugins register; undefined when they want more than answers to questions about names and contents. */
export async function hooksOf(plugins: readonly Plugin[], options: PluginBuild["initialOptions"], esbuild: PluginBuild["esbuild"], inner: Asked["inner"]): Promise<Hook[] | undefined> {
  const hooks: Hook[] = [];
  let wantsMore = false;
  const more = (): never => {
    wantsMore = true;
    throw new Error("not a hook");
  };
  for (const { name: plugin, setup } of plugins) {
    const build: PluginBuild = {
      initialOptions: options,
      esbuild,
      onResolve: (given, run) => void hooks.push({ kind: "resolve", plugin, options: given, run }),
      onLoad: (given, run) => void hooks.push({ kind: "load", plugin, options: given, run }),
      resolve: (path, given) => (inner.resolve ?? more)(path, given),
      onStart: more,
      onEnd: more,
      onDispose: more,
    };
    try {
      await setup(build);
    } catch (error) {
      if (wantsMore) return undefined;
      throw error;
    }
  }
  return hooks.map(answeringOnce);
}

/** The same hooks; who is asked twice in a build answers once, because some plugins take a second question for a mistake. */
function answeringOnce(hook: Hook): Hook {
  const answers = new Map<string, unknown>();
  const once = <Args extends { pluginData?: unknown }, Result>(run: (args: Args) => Result) => {
    return (args: Args): Result => {
      if (args.pluginData !== undefined) return run(args);
      const key = JSON.stringify(args);
      if (!answers.has(key)) answers.set(key, run(args));
      return answers.get(key) as Result;
    };
  };
  return hook.kind === "resolve" ? { ...hook, run: once(hook.run) } : { ...hook, run: once(hook.run) };
}

/** Plugins that ask the same hooks, for a build of the project where it lies. */
export function pluginsOf(hooks: readonly Hook[], inner: Asked["inner"]): Plugin[] {
  const same = (text: string): string => text;
  return pluginsFor(hooks, () => ({ hooks, inner, toTruth: same, fromTruth: same }));
}

/** Equal for builds that can share a context. */
export function keyOfHooks(hooks: readonly Hook[]): unknown {
  return hooks.map(({ kind, plugin, options: { filter, namespace } }) => [kind, plugin, filter.source, filter.flags, namespace]);
}

/** Plugins of a context; each question goes to the hook of the moment in the same place. */
export function pluginsFor(hooks: readonly Hook[], now: () => Asked): Plugin[] {
  const names = [...new Set(hooks.map(({ plugin }) => plugin))];
  return names.map((name) => ({
    name,
    setup(build) {
      for (const [place, hook] of hooks.entries()) {
        if (hook.plugin !== name) continue;
        if (hook.kind === "resolve") build.onResolve(hook.options, (args) => resolved(build, place, args, now()));
        else build.onLoad(hook.options, (args) => loaded(place, args, now()));
      }
    },
  }));
}

async function resolved(build: PluginBuild, place: number, args: OnResolveArgs, { hooks, toTruth, fromTruth, inner }: Asked): Promise<OnResolveResult | null | undefined> {
  const hook = hooks[place] as Resolves;
  inner.resolve = async (path, options) => {
    const found = await build.resolve(fromTruth(path), resolving(options, fromTruth));
    return { ...found, path: toTruth(found.path) };
  };
  const result = await hook.run({ ...args, path: toTruth(args.path), importer: toTruth(args.importer), resolveDir: toTruth(args.resolveDir) });
  return result?.path === undefined ? result : { ...result, path: fromTruth(result.path) };
}

function resolving(options: ResolveOptions | undefined, fromTruth: Asked["fromTruth"]): ResolveOptions {
  const { importer, resolveDir, ...others } = options ?? {};
  return {
    ...others,
    ...(importer === undefined ? {} : { importer: fromTruth(importer) }),
    ...(resolveDir === undefined ? {} : { resolveDir: fromTruth(resolveDir) }),
  };
}

async function loaded(place: number, args: OnLoadArgs, { hooks, toTruth, fromTruth }: Asked): Promise<OnLoadResult | null | undefined> {
  const hook = hooks[place] as Loads;
  const result = await hook.run({ ...args, path: toTruth(args.path) });
  return result?.resolveDir === undefined ? result : { ...result, resolveDir: fromTruth(result.resolveDir) };
}
