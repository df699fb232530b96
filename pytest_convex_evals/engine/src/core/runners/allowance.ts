/** How much a runner may send: much at once, less in the long run, so that nobody else waits for its flood to be read. */

/** Messages of a step that makes as many system calls as it may, and of a few that follow at once. */
const AT_ONCE = 500_000;
const PER_MS = 50;
/** A large message counts as several. */
const BYTES_OF_ONE = 1024;

export class Allowance {
  private left = AT_ONCE;
  private since = performance.now();

  /** Takes what a message costs; throws when nothing is left. */
  take(characters: number): void {
    if (this.left < 1) this.refill();
    if (this.left < 1) throw new Error("more messages than can be read");
    this.left -= 1 + characters / BYTES_OF_ONE;
  }

  private refill(): void {
    const now = performance.now();
    this.left = Math.min(AT_ONCE, this.left + (now - this.since) * PER_MS);
    this.since = now;
  }
}
