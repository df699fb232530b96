/** Bundles inline projects as the CLI does, and answers with the body of start_push. JSON lines on stdin and stdout. */

import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

const modules = process.argv[2];
const esbuild = createRequire(path.join(modules, "index.js"))("esbuild");
const version = createRequire(path.join(modules, "index.js"))("convex/package.json").version;

const GENERATED = {
  "server.js": `export { queryGeneric as query, internalQueryGeneric as internalQuery, mutationGeneric as mutation,
    internalMutationGeneric as internalMutation, actionGeneric as action, internalActionGeneric as internalAction,
    httpActionGeneric as httpAction } from "convex/server";`,
  "api.js": `import { anyApi, componentsGeneric } from "convex/server";
    export const api = anyApi; export const internal = anyApi; export const components = componentsGeneric();`,
};

const COMMON = {
  bundle: true, write: false, format: "esm", target: "esnext", jsx: "automatic", treeShaking: true, minifySyntax: true,
  minifyIdentifiers: true, keepNames: true, sourcemap: true, logLevel: "silent", conditions: ["convex", "module"],
  define: { "process.env.NODE_ENV": '"production"' },
};

async function bundle(root, entries, options) {
  if (entries.length === 0) return [];
  const built = await esbuild.build({ ...COMMON, absWorkingDir: root, entryPoints: entries, outdir: "out", outbase: options.base, ...options.extra });
  const maps = new Map(built.outputFiles.filter((file) => file.path.endsWith(".map")).map((file) => [file.path.slice(0, -4), file.text]));
  return built.outputFiles.filter((file) => !file.path.endsWith(".map")).map((file) => ({
    path: path.relative(path.join(root, "out"), file.path), source: file.text, sourceMap: maps.get(file.path), environment: options.environment,
  }));
}

/** Rewrites imports of component configs to the names under which the server knows definitions. */
function componentImports(convex, found) {
  return {
    name: "components",
    setup(build) {
      build.onResolve({ filter: /convex\.config(\.js|\.ts)?$/ }, (args) => {
        if (args.kind === "entry-point") return undefined;
        const file = path.resolve(args.resolveDir, args.path).replace(/(\.js|\.ts)?$/, "");
        const definition = path.relative(convex, path.dirname(file));
        found.push(definition);
        return { path: `./_componentDeps/${Buffer.from(definition).toString("base64url")}`, external: true };
      });
    },
  };
}

async function definition(root, convex, folder, files) {
  const inside = (name) => (folder === "" ? true : name.startsWith(`${folder}/`));
  const nested = Object.keys(files).filter((name) => name.endsWith("convex.config.ts")).map((name) => path.dirname(name)).filter((name) => name !== "." && name !== folder);
  const own = Object.keys(files).filter((name) => inside(name) && !nested.some((other) => (folder === "" || other.startsWith(`${folder}/`)) && name.startsWith(`${other}/`)));
  const base = path.join(convex, folder);
  const entry = (name) => path.join(convex, name);
  const short = (name) => path.relative(folder, name);
  const isFunctions = (name) => !["schema.ts", "convex.config.ts", "auth.config.ts"].includes(path.basename(name));
  const isNode = (name) => /^\s*["']use node["']/.test(files[name]);
  const functions = own.filter(isFunctions);
  const isolate = await bundle(root, functions.filter((name) => !isNode(name)).map(entry), {
    base, environment: "isolate", extra: { platform: "browser", splitting: true, chunkNames: "_deps/[hash]" } });
  const node = await bundle(root, functions.filter(isNode).map(entry), {
    base, environment: "node", extra: { platform: "node", splitting: true, chunkNames: "_deps/node/[hash]" } });
  const single = async (name, extra = {}) => (own.some((file) => short(file) === name)
    ? (await bundle(root, [path.join(base, name)], { base, environment: "isolate", extra: { platform: "browser", ...extra } }))[0] : null);
  const dependencies = [];
  const config = await single("convex.config.ts", { plugins: [componentImports(convex, dependencies)], minify: true });
  const auth = await single("auth.config.ts");
  return { definition: config, dependencies: [...new Set(dependencies)], schema: await single("schema.ts"), modules: [...isolate, ...node, ...(auth ? [auth] : [])], udfServerVersion: version };
}

async function body(files) {
  const root = realpathSync(mkdtempSync(path.join(tmpdir(), "engine-bundle-")));
  try {
    symlinkSync(modules, path.join(root, "node_modules"));
    const convex = path.join(root, "convex");
    const folders = ["", ...Object.keys(files).filter((name) => name.endsWith("/convex.config.ts")).map((name) => path.dirname(name))];
    const all = { ...files };
    for (const [name, text] of Object.entries(all)) {
      mkdirSync(path.dirname(path.join(convex, name)), { recursive: true });
      writeFileSync(path.join(convex, name), text);
    }
    for (const folder of folders) {
      const generated = path.join(convex, folder, "_generated");
      mkdirSync(generated, { recursive: true });
      for (const [name, text] of Object.entries(GENERATED)) writeFileSync(path.join(generated, name), text);
    }
    const app = await definition(root, convex, "", all);
    const components = [];
    for (const folder of folders.slice(1)) {
      const found = await definition(root, convex, folder, all);
      const { modules: functions, ...rest } = found;
      components.push({ definitionPath: folder, functions, ...rest });
    }
    const { modules: changedModules, ...rest } = app;
    return { dryRun: false, functions: "convex/", appDefinition: { ...rest, changedModules, unchangedModuleHashes: [] }, componentDefinitions: components, nodeDependencies: [] };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, files } = JSON.parse(line);
  try {
    process.stdout.write(`${JSON.stringify({ id, body: await body(files) })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ id, failure: String(error) })}\n`);
  }
});
