/** A binary heap: gives items in order without sorting those that nobody asks for. */
export class Heap<T> {
  constructor(
    private readonly items: T[],
    private readonly isBefore: (a: T, b: T) => boolean,
  ) {
    for (let at = (items.length >> 1) - 1; at >= 0; at--) this.sink(at);
  }

  pop(): T | undefined {
    const first = this.items[0];
    const last = this.items.pop();
    if (this.items.length > 0) {
      this.items[0] = last as T;
      this.sink(0);
    }
    return first;
  }

  private sink(from: number): void {
    const { items, isBefore } = this;
    const item = items[from] as T;
    let at = from;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && isBefore(items[child + 1] as T, items[child] as T)) child += 1;
      if (!isBefore(items[child] as T, item)) break;
      items[at] = items[child] as T;
      at = child;
    }
    items[at] = item;
  }
}
