/** Method `bundleClient`: one script of a submitted component and all it imports. Nothing of it is evaluated. */
import { realpathSync } from "node:fs";
import { join, relative } from "node:path";
import type { BuildOptions, Message } from "esbuild";

import { compilerOptions } from "../check/config.js";
import { RequestError } from "../request.js";
import { ENVIRONMENT, entrySource } from "./entry.js";
import { onlyInside, withoutAssets } from "./guard.js";

/** What is wrong with the submission; empty when the script was written. */
export interface Bundled {
  errors: string[];
}

interface BundleParams {
  project: string;
  toolchain: string;
  entry: string;
  exportName: string;
  out: string;
}

const MOST = 20;

function read(params: unknown): BundleParams {
  const { project, toolchain, entry, exportName, out } = (params ?? {}) as Record<string, unknown>;
  const given = [project, toolchain, entry, exportName, out];
  if (!given.every((value) => typeof value === "string")) {
    throw new RequestError("bad_request", "project, toolchain, entry, exportName and out are needed");
  }
  return { project, toolchain, entry, exportName, out } as BundleParams;
}

/** Bundle `entry` of the project into `out`. */
export async function bundleClient(params: unknown): Promise<Bundled> {
  const wanted = read(params);
  const root = realpathSync(wanted.project);
  const { build } = await import("esbuild");
  try {
    await build(optionsFor(wanted, root));
    return { errors: [] };
  } catch (error) {
    const { errors } = error as { errors?: Message[] };
    if (!Array.isArray(errors) || errors.length === 0) throw error;
    return { errors: errors.slice(0, MOST).map((message) => described(message, root)) };
  }
}

function optionsFor({ toolchain, entry, exportName, out }: BundleParams, root: string): BuildOptions {
  const { paths, baseUrl, jsxImportSource } = compilerOptions(root, toolchain);
  return {
    stdin: { contents: entrySource(entry, exportName), resolveDir: root, sourcefile: "screen-entry.js", loader: "js" },
    absWorkingDir: root,
    outfile: out,
    bundle: true,
    format: "iife",
    platform: "browser",
    target: "es2022",
    charset: "utf8",
    jsx: "automatic",
    ...(jsxImportSource === undefined ? {} : { jsxImportSource }),
    mainFields: ["browser", "module", "main"],
    conditions: ["module", "browser"],
    define: {
      "process.env.NODE_ENV": '"development"',
      "process.env": ENVIRONMENT,
      "import.meta.env": ENVIRONMENT,
      "import.meta.hot": "undefined",
      "import.meta.url": '"http://localhost/"',
    },
    // Given, so that a tsconfig of the submission is not read; its names for its own files are kept.
    tsconfigRaw: { compilerOptions: { target: "esnext", useDefineForClassFields: true } },
    plugins: [withoutAssets, ...ownNames(paths, baseUrl ?? root), onlyInside(root)],
    legalComments: "none",
    logLevel: "silent",
    logLimit: MOST,
  };
}

/** `@/components/x` and other names that the project maps onto its own files. */
function ownNames(paths: Record<string, string[]> | undefined, base: string): NonNullable<BuildOptions["plugins"]> {
  const entries = Object.entries(paths ?? {});
  if (entries.length === 0) return [];
  return [
    {
      name: "own-names",
      setup(build) {
        build.onResolve({ filter: /^[^./]/ }, async ({ path, kind, resolveDir, pluginData }) => {
          if (pluginData === "own-names" || kind === "entry-point") return undefined;
          for (const [pattern, targets] of entries) {
            const star = matched(pattern, path);
            if (star === undefined) continue;
            for (const target of targets) {
              const found = await build.resolve(join(base, target.replace("*", star)), {
                kind,
                resolveDir,
                pluginData: "own-names",
              });
              if (found.errors.length === 0) return { path: found.path, namespace: found.namespace };
            }
          }
          return undefined;
        });
      },
    },
  ];
}

/** What the star of a pattern stands for. */
function matched(pattern: string, path: string): string | undefined {
  const [head = "", tail] = pattern.split("*");
  if (tail === undefined) return path === pattern ? "" : undefined;
  const fits = path.length >= head.length + tail.length && path.startsWith(head) && path.endsWith(tail);
  return fits ? path.slice(head.length, path.length - tail.length) : undefined;
}

function described({ text, location }: Message, root: string): string {
  if (location === null) return text;
  const file = relative(root, join(root, location.file));
  const inside = !file.startsWith("..") && file !== "screen-entry.js";
  return inside ? `${file}:${location.line}:${location.column + 1} ${text}` : text;
}
