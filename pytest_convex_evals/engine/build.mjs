// Bundles the Node part: node build.mjs SOURCE_FOLDER OUTPUT_FOLDER, run from a folder that holds node_modules.
import { existsSync } from "node:fs";
import { STATUS_CODES, maxHeaderSize } from "node:http";
import { join, resolve } from "node:path";
import { build } from "esbuild";

import { slim } from "./slim.mjs";

const [source, output] = process.argv.slice(2).map((path) => resolve(path));
const entryPoints = {};
for (const part of ["child", "core", "gate", "grader", "reach", "screen", "toolchain", "vitest"]) {
  const main = join(source, part, "main.ts");
  if (existsSync(main)) entryPoints[part] = main;
}

await build({
  entryPoints,
  outdir: output,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node24",
  sourcemap: "inline",
  sourcesContent: false,
  legalComments: "none",
  logLevel: "warning",
  nodePaths: [resolve("node_modules")],
  // Large packages stay where they are installed; optional parts of ws are not needed.
  external: ["typescript", "vitest", "vite", "undici", "eslint", "typescript-eslint", "eslint-plugin-react-hooks", "esbuild", "jsdom", "@testing-library/*", "bufferutil", "utf-8-validate"],
  banner: { js: 'import { createRequire as nodeRequire } from "node:module"; const require = nodeRequire(import.meta.url);' },
});

// Every cell starts runners, and Node starts a plain script faster than a module.
await build({
  entryPoints: { runner: join(source, "runner", "main.ts") },
  outdir: output,
  outExtension: { ".js": ".cjs" },
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node24",
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "none",
  logLevel: "warning",
});

// What graders import, in few files: packages in many pieces are slow to load. The pieces are shared, so that each exists once.
const packages = ["ai", "@ai-sdk/openai", "convex/browser", "convex/server", "convex/values", "zod"];
await build({
  entryPoints: packages.map((name) => ({ in: name, out: name.replaceAll("/", "+") })),
  outdir: join(output, "node_modules"),
  outExtension: { ".js": ".mjs" },
  bundle: true,
  splitting: true,
  platform: "node",
  format: "esm",
  target: "node24",
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "none",
  logLevel: "warning",
  nodePaths: [resolve("node_modules")],
  banner: { js: 'import { createRequire as nodeRequire } from "node:module"; const require = nodeRequire(import.meta.url);' },
});

// A screen with its packages in one file, for the snapshot that set-up makes of it. A snapshot holds neither HTTP modules of Node nor
// what Node makes of them, and has no files beside it.
const standIns = new Map([
  ["node:http", { STATUS_CODES, maxHeaderSize }],
  ["node:http2", { constants: {} }],
]);
if (entryPoints.screen !== undefined) {
  await build({
    entryPoints: { screen: entryPoints.screen },
    outdir: output,
    outExtension: { ".js": ".cjs" },
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node24",
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: "none",
    logLevel: "error",
    nodePaths: [resolve("node_modules")],
    external: ["canvas"],
    alias: { "css-tree": resolve("node_modules/css-tree/cjs/index.cjs") },
    inject: [join(source, "screen", "standins.ts")],
    define: {
      // The only file that is read while the packages are loaded lies beside this folder.
      __dirname: JSON.stringify(resolve("node_modules/jsdom/lib/jsdom/living/css/helpers")),
      "globalThis.Headers": "undefined",
      "require.resolve": "String",
    },
    plugins: [
      {
        name: "stand-ins",
        setup({ onResolve, onLoad }) {
          onResolve({ filter: /^node:http2?$/ }, ({ path }) => ({ path, namespace: "stand-in" }));
          onLoad({ filter: /.*/, namespace: "stand-in" }, ({ path }) => ({
            contents: `module.exports = ${JSON.stringify(standIns.get(path))}; module.exports.IncomingMessage = class {};`,
          }));
        },
      },
      slim(join(source, "screen", "selectors.ts")),
    ],
  });
}
