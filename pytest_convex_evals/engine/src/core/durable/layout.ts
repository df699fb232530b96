/**
 * What is in a data folder.
 *
 *   format       the version of everything below
 *   lock         held by the process that uses the folder
 *   log-000001   a snapshot and all changes since; the highest number counts, `.tmp` is unfinished
 *   files/       contents of stored files, by uuid
 */

import { basename, dirname, join } from "node:path";

export const FORMAT = 1;
export const FORMAT_FILE = "format";
export const LOCK_FILE = "lock";
export const CONTENTS = "files";
export const UNFINISHED = ".tmp";

const LOG = /^log-(\d{6,})(\.tmp)?$/;

export function logName(number: number): string {
  return `log-${String(number).padStart(6, "0")}`;
}

export function nextLog(path: string): string {
  return join(dirname(path), logName((logNumber(basename(path)) ?? 0) + 1));
}

/** The number of a finished log, or null for every other name. */
export function logNumber(name: string): number | null {
  const match = LOG.exec(name);
  return match === null || match[2] !== undefined ? null : Number(match[1]);
}

export function isUnfinished(name: string): boolean {
  return name.endsWith(UNFINISHED);
}
