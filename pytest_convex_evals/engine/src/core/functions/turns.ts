/**
 * Who runs beside whom: mutations run together, and one that has conflicted runs alone.
 *
 * All functions share one process, so many at once make each of them slow, and a mutation would conflict with the others on every
 * attempt. The platform, where each has a processor of its own, lets a hundred callers count up one document.
 */

interface Waiting {
  alone: boolean;
  go: () => void;
}

export class Turns {
  private running = 0;
  private isAlone = false;
  /** In the order in which they came, so that nobody waits for ever. */
  private readonly waiting: Waiting[] = [];

  /** Null when the caller may begin at once, else what to wait for. Each turn is ended by `end`. */
  begin(alone: boolean): Promise<void> | null {
    if (this.waiting.length === 0 && this.fits(alone)) {
      this.enter(alone);
      return null;
    }
    return new Promise((go) => this.waiting.push({ alone, go }));
  }

  end(): void {
    this.running -= 1;
    this.isAlone = false;
    for (let next = this.waiting[0]; next !== undefined && this.fits(next.alone); next = this.waiting[0]) {
      this.waiting.shift();
      this.enter(next.alone);
      next.go();
    }
  }

  private fits(alone: boolean): boolean {
    return !this.isAlone && (!alone || this.running === 0);
  }

  private enter(alone: boolean): void {
    this.running += 1;
    this.isAlone = alone;
  }
}
