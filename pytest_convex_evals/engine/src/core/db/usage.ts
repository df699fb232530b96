/** What a transaction has used, and the limits it may not exceed. */

import { UserError } from "../errors.js";
import { formatBytes } from "../values/value.js";

export const DIMENSIONS = [
  "bytesRead",
  "bytesWritten",
  "databaseQueries",
  "documentsRead",
  "documentsWritten",
  "functionsScheduled",
  "scheduledFunctionArgsBytes",
] as const;
export type Dimension = (typeof DIMENSIONS)[number];
export type Amounts = Record<Dimension, number>;

const MIB_16 = 16 * 1024 * 1024;

export const DEFAULT_LIMITS: Readonly<Amounts> = {
  bytesRead: MIB_16,
  bytesWritten: MIB_16,
  databaseQueries: 4096,
  documentsRead: 32_000,
  documentsWritten: 16_000,
  functionsScheduled: 1000,
  scheduledFunctionArgsBytes: MIB_16,
};

export function noUsage(): Amounts {
  return {
    bytesRead: 0,
    bytesWritten: 0,
    databaseQueries: 0,
    documentsRead: 0,
    documentsWritten: 0,
    functionsScheduled: 0,
    scheduledFunctionArgsBytes: 0,
  };
}

const READ_ADVICE =
  "Consider using smaller limits in your queries, paginating your queries, or using indexed queries with a selective index range expressions.";

/** The error for exceeding one dimension. */
export function limitError(dimension: Dimension, limit: number): UserError {
  switch (dimension) {
    case "documentsRead":
      return new UserError("TooManyDocumentsRead", `Too many documents read in a single function execution (limit: ${limit}). ${READ_ADVICE}`);
    case "bytesRead":
      return new UserError("TooManyBytesRead", `Too many bytes read in a single function execution (limit: ${limit} bytes). ${READ_ADVICE}`);
    case "databaseQueries":
      return new UserError("TooManyReads", `Too many reads in a single function execution (limit: ${limit}). ${READ_ADVICE}`);
    case "documentsWritten":
      return new UserError("TooManyWrites", `Too many writes in a single function execution (limit: ${limit})`);
    case "bytesWritten":
      return new UserError("TooManyBytesWritten", `Too many bytes written in a single function execution (limit: ${formatBytes(limit)})`);
    case "functionsScheduled":
      return new UserError("TooManyFunctionsScheduled", `Too many functions scheduled by this mutation (limit: ${limit})`);
    case "scheduledFunctionArgsBytes":
      return new UserError(
        "ScheduledFunctionsArgumentsTooLarge",
        `Too large total size of the arguments of scheduled functions from this mutation (limit: ${limit} bytes)`,
      );
  }
}

const WARNINGS: readonly [Dimension, string][] = [
  ["documentsRead", "Many documents read in a single function execution"],
  ["databaseQueries", "Many reads in a single function execution"],
  ["bytesRead", "Many bytes read in a single function execution"],
  ["documentsWritten", "Many writes in a single function execution"],
  ["bytesWritten", "Many bytes written in a single function execution"],
  ["functionsScheduled", "Many functions scheduled by this mutation"],
  ["scheduledFunctionArgsBytes", "Large total size of the arguments of scheduled functions from this mutation"],
];

/** Texts of the warnings for dimensions above 80 % of their limit. */
export function nearLimitWarnings(used: Amounts): string[] {
  return WARNINGS.filter(([dimension]) => used[dimension] > DEFAULT_LIMITS[dimension] * 0.8).map(
    ([dimension, text]) => `${text} (actual: ${used[dimension]}, limit: ${DEFAULT_LIMITS[dimension]}).`,
  );
}
