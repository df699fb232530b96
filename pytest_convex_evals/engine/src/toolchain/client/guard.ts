/** How a component's imports are read: assets are nothing, and files outside the project and its packages are not read. */
import { realpathSync } from "node:fs";
import { join, sep } from "node:path";
import type { Plugin } from "esbuild";

/** The project that a build is about. */
export interface Submission {
  /** Its folder, without links. */
  root: string;
  /** Names that it maps onto its own files, and the folder they are relative to. */
  paths: Record<string, string[]>;
  base: string;
}

const ASSETS = /\.(css|scss|sass|less|styl|svg|png|jpe?g|gif|webp|avif|ico|bmp|woff2?|ttf|otf|eot|mp[34]|webm|wav|ogg|pdf)(\?.*)?$/i;

/** What a page looks like does not matter here, and a picture that was not submitted is no mistake. */
export const withoutAssets: Plugin = {
  name: "without-assets",
  setup(build) {
    build.onResolve({ filter: ASSETS }, ({ path }) => ({ path, namespace: "asset" }));
    build.onLoad({ filter: /.*/, namespace: "asset" }, () => ({ contents: "export default {};", loader: "js" }));
  },
};

/** Imports reach the project and the packages installed for it, whatever path they spell. */
export function onlyInside(now: () => Submission): Plugin {
  return {
    name: "only-inside",
    setup(build) {
      let roots: string[] = [];
      build.onStart(() => {
        const { root } = now();
        roots = [root];
        try {
          roots.push(realpathSync(join(root, "node_modules")));
        } catch {
          // Nothing was installed; the imports fail by themselves.
        }
      });
      build.onLoad({ filter: /.*/, namespace: "file" }, ({ path }) => {
        let real: string;
        try {
          real = realpathSync(path);
        } catch {
          return undefined;
        }
        if (roots.some((root) => real.startsWith(root + sep))) return undefined;
        return { errors: [{ text: "a file outside the project is imported" }] };
      });
    },
  };
}

/** `@/components/x` and other names that the project maps onto its own files. */
export function ownNames(now: () => Submission): Plugin {
  return {
    name: "own-names",
    setup(build) {
      build.onResolve({ filter: /^[^./]/ }, async ({ path, kind, resolveDir, pluginData }) => {
        if (pluginData === "own-names" || kind === "entry-point") return undefined;
        const { paths, base } = now();
        for (const [pattern, targets] of Object.entries(paths)) {
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
  };
}

/** What the star of a pattern stands for. */
function matched(pattern: string, path: string): string | undefined {
  const [head = "", tail] = pattern.split("*");
  if (tail === undefined) return path === pattern ? "" : undefined;
  const fits = path.length >= head.length + tail.length && path.startsWith(head) && path.endsWith(tail);
  return fits ? path.slice(head.length, path.length - tail.length) : undefined;
}
