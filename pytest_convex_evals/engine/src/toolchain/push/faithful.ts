/**
 * Whether a build of a replica is that of the project.
 *
 * It is when there is nothing to say, when nothing but the replica was read or is named, and when the kind of a package's files does not
 * depend on its manifest: they are modules by what stands in them, or nothing stands in them.
 */
import { resolve } from "node:path";
import type { BuildResult, Metafile, OutputFile } from "esbuild";

import { isInside } from "./reads.js";
import type { Replica } from "./replica.js";

/** What a package wants to be empty; it is no module. */
const DISABLED = "(disabled):";

interface Input {
  path: string;
  format: string | undefined;
}

/** What was read in a folder. */
export function inputsIn({ metafile }: BuildResult, project: string, folder: string): Input[] {
  const inputs = Object.entries(metafile?.inputs ?? {}).map(([name, { format }]) => ({ path: resolve(project, name), format }));
  return inputs.filter(({ path }) => isInside(path, folder));
}

export function isFaithful({ errors, warnings, outputFiles = [], metafile }: BuildResult, replica: Replica): boolean {
  const { root } = replica;
  if (errors.length > 0 || warnings.length > 0 || metafile === undefined || namesOf(metafile).some((name) => name.includes(root))) return false;
  if (outputFiles.some(({ contents }) => Buffer.from(contents.buffer, contents.byteOffset, contents.byteLength).includes(root))) return false;
  const inputs = Object.entries(metafile.inputs);
  const loaded = new Set(inputs.flatMap(([, { imports }]) => imports.filter(({ kind }) => kind !== "import-statement").map(({ path }) => path)));
  return inputs.every(([name, { format }]) => {
    const path = resolve(replica.project, name);
    if (name.startsWith(DISABLED)) return false;
    return isInside(path, replica.project) || (isInside(path, replica.set) && (format === "esm" || (format === undefined && replica.isEmpty(path) && !loaded.has(name))));
  });
}

function namesOf({ inputs, outputs }: Metafile): string[] {
  const imported = [...Object.values(inputs), ...Object.values(outputs)].flatMap(({ imports }) => imports.map(({ path }) => path));
  return [...Object.keys(inputs), ...Object.keys(outputs), ...imported];
}

/** The result under the names of the project, and with the kinds that its manifests give to files. */
export function inTruth(result: BuildResult, replica: Replica, toTruth: (path: string) => string): BuildResult {
  for (const [name, input] of Object.entries(result.metafile?.inputs ?? {})) {
    if (replica.isEmpty(resolve(replica.project, name))) input.format = "esm";
  }
  return { ...result, outputFiles: (result.outputFiles ?? []).map((file) => renamed(file, toTruth(file.path))) };
}

function renamed(file: OutputFile, path: string): OutputFile {
  const { contents, hash } = file;
  return {
    path,
    contents,
    hash,
    get text() {
      return file.text;
    },
  };
}
