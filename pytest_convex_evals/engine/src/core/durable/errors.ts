/**
 * What can go wrong with a data folder.
 *
 *   DataError    the folder cannot be used at all; the engine does not start
 *   NotWritten   a change could not be made durable and did not happen; its caller may try again
 */

import { SystemError } from "../errors.js";

export class DataError extends Error {
  constructor(problem: string, remedy: string) {
    super(`${problem}\n  what to do: ${remedy}`);
  }
}

export class NotWritten extends SystemError {
  constructor(file: string, cause: unknown) {
    super("DataNotWritten", `The change was not made: ${file} could not be written (${errorCode(cause)}). Make room on its disk, then try again.`, 503);
  }
}

/** The code that the operating system gave, or what else is known. */
export function errorCode(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}
