/** What one running function is: its place in the tree of calls, its transaction, its streams. */

import type { Identity } from "../auth/identity.js";
import type { QueryStream } from "../db/query.js";
import type { Transaction } from "../db/transaction.js";
import type { Component } from "../deployment.js";
import type { JobRef } from "../time/jobs.js";
import type { Budget } from "../runners/udf.js";
import type { CallLog } from "./logs.js";
import type { FunctionPath } from "./paths.js";

/** Facts shared by the whole tree of one top-level call. */
export interface CallRoot {
  readonly log: CallLog;
  readonly requestId: string;
  /** The engine's epoch when the call began. */
  readonly epoch: number;
  readonly budget: Budget;
  /** Frozen time of queries and mutations. */
  readonly now: number;
  nextSeed(): number;
  /** The scheduled job being run, or that led to this call. */
  readonly job: JobRef | null;
  readonly request: RequestFacts;
}

export interface RequestFacts {
  ip: string | null;
  userAgent: string | null;
}

export interface UdfContext {
  readonly root: CallRoot;
  readonly tx: Transaction;
  readonly component: Component;
  readonly path: FunctionPath;
  readonly kind: "query" | "mutation";
  /** Whether the outermost function of the transaction is a mutation. */
  readonly inMutation: boolean;
  readonly identity: Identity;
  readonly depth: number;
  readonly streams: Map<number, QueryStream>;
  nextStream: number;
  paginated: boolean;
  /** Cursor at which the page of an earlier run of this query ended. */
  journal: string | null;
  newJournal: string | null;
}

export const NO_REQUEST: RequestFacts = { ip: null, userAgent: null };
