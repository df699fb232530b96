/** Plugins of the bundler: styles and pictures are nothing, and files outside the project and its packages are not read. */
import { realpathSync } from "node:fs";
import { join, sep } from "node:path";
import type { Plugin } from "esbuild";

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
export function onlyInside(project: string): Plugin {
  const roots = [realpathSync(project)];
  try {
    roots.push(realpathSync(join(project, "node_modules")));
  } catch {
    // Nothing was installed; the imports fail by themselves.
  }
  return {
    name: "only-inside",
    setup(build) {
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
