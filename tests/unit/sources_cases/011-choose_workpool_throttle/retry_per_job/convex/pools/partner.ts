import { Workpool } from "@convex-dev/workpool";
import { components } from "../_generated/api";
import { OPEN_REQUESTS as maxParallelism } from "./settings";

let pool: Workpool | undefined;

export function partnerPool() {
  if (pool === undefined) pool = new Workpool(components.workpool, { maxParallelism, logLevel: "INFO" });
  return pool;
}
