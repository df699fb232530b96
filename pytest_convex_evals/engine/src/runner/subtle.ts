/** `crypto.subtle` for realms: operations that need fresh randomness are refused where the runtime is deterministic. */

const RANDOM_ALGORITHMS: Record<string, readonly string[]> = {
  sign: ["ECDSA", "RSA-PSS"],
  encrypt: ["RSA-OAEP"],
  generateKey: ["*"],
};
const OPERATIONS = ["decrypt", "deriveBits", "deriveKey", "digest", "encrypt", "exportKey", "generateKey", "importKey", "sign", "verify"] as const;

/** `refusal` is null where randomness is allowed. */
export function guardedSubtle(
  refusal: (() => string) | null,
  makeError: (message: string) => Error,
  track: <T>(work: Promise<T>) => Promise<T>,
): Record<string, unknown> {
  const guarded: Record<string, unknown> = {};
  for (const name of OPERATIONS) {
    guarded[name] = (...args: unknown[]): Promise<unknown> => {
      const algorithm = (typeof args[0] === "string" ? args[0] : (args[0] as { name?: unknown } | undefined)?.name) ?? "";
      const random = RANDOM_ALGORITHMS[name];
      if (refusal !== null && random !== undefined && (random.includes("*") || random.includes(String(algorithm).toUpperCase()))) {
        return Promise.reject(makeError(refusal()));
      }
      const subtle = globalThis.crypto.subtle as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
      return track((subtle[name] as (...given: unknown[]) => Promise<unknown>).apply(subtle, args));
    };
  }
  return guarded;
}
