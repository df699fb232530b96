/** How all scripts of a page are bundled. */
import type { BuildOptions } from "esbuild";

import { ENVIRONMENT } from "./entry.js";

export const MOST_ERRORS = 20;

export function settings(folder: string): BuildOptions & { write: false } {
  return {
    absWorkingDir: folder,
    write: false,
    bundle: true,
    format: "iife",
    platform: "browser",
    target: "es2022",
    charset: "utf8",
    jsx: "automatic",
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
    legalComments: "none",
    logLevel: "silent",
    logLimit: MOST_ERRORS,
  };
}
