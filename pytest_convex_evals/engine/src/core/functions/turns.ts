/**
 * Who runs beside whom: a few mutations run together, but not two of one function, which would often conflict, and one that has
 * conflicted runs alone. So do, for a moment, other calls of its function: where callers of one document come together, every call
 * beside another is work that is thrown away.
 *
 * All functions share one process, so many at once make each of them slow, and each needs a context of its own; a mutation would
 * conflict with the others on every attempt. The platform, where each has a processor of its own, lets a hundred callers count up
 * one document.
 */

interface Waiting {
  name: string;
  alone: boolean;
  go: () => void;
}

/** How long a conflict says something about the next calls of a function. */
const LATELY_MS = 1000;

export class Turns {
  private readonly running = new Set<string>();
  private isAlone = false;
  /** In the order in which they came, so that nobody waits for ever. */
  private readonly waiting: Waiting[] = [];
  /** When a call of a function last conflicted, by its name. */
  private readonly conflicts = new Map<string, number>();

  constructor(
    /** How many run together at most. */
    private readonly most: number,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** A call of this function has conflicted. */
  conflicted(name: string): void {
    this.conflicts.set(name, this.nowMs());
  }

  /** Whether its next call would probably conflict with those beside it. */
  hasConflicted(name: string): boolean {
    const at = this.conflicts.get(name);
    if (at === undefined) return false;
    if (this.nowMs() - at <= LATELY_MS) return true;
    this.conflicts.delete(name);
    return false;
  }

  /** The data is new, and so are the callers. */
  forget(): void {
    this.conflicts.clear();
  }

  /** Null when a call of this function may begin at once, else what to wait for. Each turn is ended by `end`. */
  begin(name: string, alone: boolean): Promise<void> | null {
    if (this.waiting.length === 0 && this.fits(name, alone)) {
      this.enter(name, alone);
      return null;
    }
    return new Promise((go) => this.waiting.push({ name, alone, go }));
  }

  end(name: string): void {
    this.running.delete(name);
    this.isAlone = false;
    for (let next = this.waiting[0]; next !== undefined && this.fits(next.name, next.alone); next = this.waiting[0]) {
      this.waiting.shift();
      this.enter(next.name, next.alone);
      next.go();
    }
  }

  private fits(name: string, alone: boolean): boolean {
    return !this.isAlone && this.running.size < (alone ? 1 : this.most) && !this.running.has(name);
  }

  private enter(name: string, alone: boolean): void {
    this.running.add(name);
    this.isAlone = alone;
  }
}
