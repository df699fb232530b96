/**
 * The engine's errors.
 *
 *   UserError      deterministic, thrown into JavaScript where user code may catch it; HTTP 400 (or its own status)
 *   SystemError    ends the whole call, cannot be caught by a query or mutation; HTTP status by class
 *   JsFailure      what a function threw, with its stack lines and perhaps ConvexError data
 *
 * Anything else is a defect of the engine and is answered as an internal server error.
 */

export class UserError extends Error {
  constructor(
    readonly code: string,
    message: string,
    /** Convex JSON of error data, for errors that arrive as a ConvexError. */
    readonly data?: unknown,
    readonly status = 400,
  ) {
    super(message);
  }
}

export class SystemError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 503,
  ) {
    super(message);
  }
}

/** The conflict of an optimistic transaction; the caller decides whether to run again. */
export class ConflictError extends SystemError {
  constructor(message: string) {
    super("OptimisticConcurrencyControlFailure", message, 503);
  }
}

export class JsFailure extends Error {
  constructor(
    message: string,
    readonly frames: readonly string[] = [],
    /** Convex JSON of a ConvexError's data. */
    readonly data?: unknown,
    /** Of failures that the control channel tells apart. */
    readonly code?: string,
  ) {
    super(message);
  }

  /** Message, newline, one line per frame, each ending in a newline; framework errors have no frames and no newline. */
  get text(): string {
    if (this.frames.length === 0) return this.message;
    return `${this.message}\n${this.frames.map((frame) => `${frame}\n`).join("")}`;
  }
}

export const INTERNAL_MESSAGE = "Your request couldn't be completed. Try again later.";
