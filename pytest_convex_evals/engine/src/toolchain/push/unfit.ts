/** Why a project is pushed by the Convex CLI in a process of its own after all. */

/**
 * - `package`: the `convex` package is not one that the package store installed from the registry
 * - `version`: a version of `convex` that was never compared with its CLI
 * - `library`: the CLI of this version is built differently
 * - `manifest`, `config`: something that `convex dev` looks at before it pushes
 * - `outside`: the sources read files that belong neither to the project nor to its packages, or the CLI asks somebody else
 * - `transient`: the CLI would try again
 * - `unreachable`: the backend does not answer
 * - `defect`: an exception that the CLI does not expect
 */
export type UnfitCode = "package" | "version" | "library" | "manifest" | "config" | "outside" | "transient" | "unreachable" | "defect";

export class Unfit extends Error {
  constructor(
    readonly code: UnfitCode,
    message: string,
  ) {
    super(message);
  }
}
