/* eslint-disable */
/**
 * Generated `api` utility.
 *
 * THIS CODE IS AUTOMATICALLY GENERATED.
 *
 * To regenerate, run `npx convex dev`.
 * @module
 */

import type * as admin from "../admin.js";
import type * as assets from "../assets.js";
import type * as auth from "../auth.js";
import type * as benchmarkVersions from "../benchmarkVersions.js";
import type * as checks from "../checks.js";
import type * as crons from "../crons.js";
import type * as debug from "../debug.js";
import type * as debugQueries from "../debugQueries.js";
import type * as errors from "../errors.js";
import type * as evals from "../evals.js";
import type * as experiments from "../experiments.js";
import type * as http from "../http.js";
import type * as input from "../input.js";
import type * as limits from "../limits.js";
import type * as migrations from "../migrations.js";
import type * as modelScores from "../modelScores.js";
import type * as models from "../models.js";
import type * as runs from "../runs.js";
import type * as samples from "../samples.js";
import type * as settle from "../settle.js";
import type * as statistics from "../statistics.js";
import type * as steps from "../steps.js";
import type * as validators from "../validators.js";

import type {
  ApiFromModules,
  FilterApi,
  FunctionReference,
} from "convex/server";

declare const fullApi: ApiFromModules<{
  admin: typeof admin;
  assets: typeof assets;
  auth: typeof auth;
  benchmarkVersions: typeof benchmarkVersions;
  checks: typeof checks;
  crons: typeof crons;
  debug: typeof debug;
  debugQueries: typeof debugQueries;
  errors: typeof errors;
  evals: typeof evals;
  experiments: typeof experiments;
  http: typeof http;
  input: typeof input;
  limits: typeof limits;
  migrations: typeof migrations;
  modelScores: typeof modelScores;
  models: typeof models;
  runs: typeof runs;
  samples: typeof samples;
  settle: typeof settle;
  statistics: typeof statistics;
  steps: typeof steps;
  validators: typeof validators;
}>;

/**
 * A utility for referencing Convex functions in your app's public API.
 *
 * Usage:
 * ```js
 * const myFunctionReference = api.myModule.myFunction;
 * ```
 */
export declare const api: FilterApi<
  typeof fullApi,
  FunctionReference<any, "public">
>;

/**
 * A utility for referencing Convex functions in your app's internal API.
 *
 * Usage:
 * ```js
 * const myFunctionReference = internal.myModule.myFunction;
 * ```
 */
export declare const internal: FilterApi<
  typeof fullApi,
  FunctionReference<any, "internal">
>;

export declare const components: {
  migrations: import("@convex-dev/migrations/_generated/component.js").ComponentApi<"migrations">;
};
