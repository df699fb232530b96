// Refusals: what a caller did that no retry can mend.
import { ConvexError } from "convex/values";

export type RefusalCode =
  | "invalid"
  | "not_a_model"
  | "too_large"
  | "conflict"
  | "unknown_model"
  | "unknown_suite"
  | "unknown_run"
  | "unknown_asset"
  | "unplanned_eval"
  | "run_deleted";

export function refusal(code: RefusalCode, message: string): ConvexError<{ code: RefusalCode; message: string }> {
  return new ConvexError({ code, message });
}

export type AuthReason = "unknown" | "expired" | "revoked" | "scope";

export function unauthorized(
  reason: AuthReason,
  message: string,
): ConvexError<{ code: "unauthorized"; reason: AuthReason; message: string }> {
  return new ConvexError({ code: "unauthorized", reason, message });
}
