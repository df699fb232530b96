/**
 * What decides which file an import of a project means: the names that are there, and the files that give names another meaning.
 *
 * With equal layouts and equal packages, the bundler looks at the same files; what it makes of them depends on their contents.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const PACKAGES = "node_modules";
/** Files that the bundler reads without telling. */
const MEANINGS = /^(?:package\.json|[jt]sconfig\.json|\.pnp\..*)$/;
const MORE_FILES = /"extends"|\\/;

/** Equal for equal layouts; undefined where more than names and these files may decide. */
export function layoutOf(project: string): string | undefined {
  const found: string[] = [];
  const pending = [""];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    for (const entry of readdirSync(join(project, folder), { withFileTypes: true })) {
      const name = join(folder, entry.name);
      if (name === PACKAGES) continue;
      if (entry.isDirectory()) pending.push(name);
      else if (!entry.isFile()) return undefined;
      const text = entry.isFile() && MEANINGS.test(entry.name) ? readFileSync(join(project, name), "utf8") : "";
      if (entry.name.endsWith("config.json") && MORE_FILES.test(text)) return undefined;
      found.push(`${name}${entry.isDirectory() ? "/" : ""}\0${text}`);
    }
  }
  return JSON.stringify(found.sort());
}
