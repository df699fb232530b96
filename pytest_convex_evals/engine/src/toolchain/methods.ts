/** What the toolchain worker can be asked: one module per method, listed here. */
import { lint, typecheck } from "./check/method.js";
import { bundleClient } from "./client/method.js";
import { deploy } from "./push/method.js";
import { sources } from "./sources/method.js";
import { RequestError } from "./request.js";

export { RequestError };

export type Method = (params: unknown) => unknown;

export const methods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ["bundleClient", bundleClient],
  ["deploy", deploy],
  ["lint", lint],
  ["sources", sources],
  ["typecheck", typecheck],
]);
