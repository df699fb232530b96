/** What a build has read, by what it says itself; the CLI would not get at some of it where it is caged. */
import { realpathSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import type { BuildResult, Message } from "esbuild";

const NOT_FILES = ["convex-virtual-config:", "async-hooks-shim:", "server-only-stub:", "(disabled):"];

export function isInside(path: string, folder: string): boolean {
  return path.startsWith(folder + sep);
}

/** Absolute paths. */
export function filesRead({ metafile }: BuildResult, folder: string): string[] {
  const names = Object.keys(metafile?.inputs ?? {}).filter((name) => !NOT_FILES.some((prefix) => name.startsWith(prefix)));
  return names.map((name) => resolve(folder, name));
}

/** A build read a file outside the project and its packages. */
export function readOutside(result: BuildResult, folder: string): boolean {
  return !areInside(filesRead(result, folder), folder);
}

/** A message is about such a file: configs and source maps are read, too, and are not listed among what was built. */
export function toldOutside({ errors, warnings }: { errors: Message[]; warnings: Message[] }, folder: string): boolean {
  const places = [...errors, ...warnings].flatMap((message) => [message.location, ...message.notes.map((note) => note.location)]);
  const files = places.filter((place) => place !== null && ["", "file"].includes(place.namespace)).map((place) => resolve(folder, (place as { file: string }).file));
  return !areInside(files, folder);
}

/** The tsconfig beside the project is ours, and says nothing. */
function areInside(paths: readonly string[], folder: string): boolean {
  const places = [folder, realpathSync.native(folder), realpathSync.native(join(folder, "node_modules"))];
  return paths.every((path) => places.some((place) => isInside(path, place)) || path === join(dirname(folder), "tsconfig.json"));
}
