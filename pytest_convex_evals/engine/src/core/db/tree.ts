/**
 * A persistent ordered map from strings to values: a B+ tree whose updates copy the path to the root.
 *
 * Old roots stay valid, so that a snapshot is a reference and a rollback is an assignment. A search costs O(log n), a cursor step
 * amortised O(1).
 */

const WIDTH = 32;
/** Keys per node of a tree that is made at once: room for later ones. */
const FILL = 24;

interface Leaf<V> {
  readonly leaf: true;
  readonly keys: readonly string[];
  readonly values: readonly V[];
}
interface Inner<V> {
  readonly leaf: false;
  /** Smallest key of each child; the first may be stale (too small), which is harmless. */
  readonly keys: readonly string[];
  readonly children: readonly Node<V>[];
}
type Node<V> = Leaf<V> | Inner<V>;

const EMPTY: Leaf<never> = { leaf: true, keys: [], values: [] };

export class Tree<V> {
  private constructor(
    private readonly root: Node<V>,
    readonly size: number,
  ) {}

  static empty<V>(): Tree<V> {
    return new Tree<V>(EMPTY, 0);
  }

  /** A tree of many entries at once, each key with the value at its place. */
  static of<V>(keys: readonly string[], values: readonly V[]): Tree<V> {
    const order = sortedOrder(keys);
    let nodes: Node<V>[] = [];
    for (let at = 0; at < keys.length; at += FILL) {
      const part = order === null ? null : order.subarray(at, at + FILL);
      const pick = <T>(from: readonly T[]): T[] => (part === null ? from.slice(at, at + FILL) : Array.from(part, (place) => from[place] as T));
      nodes.push({ leaf: true, keys: pick(keys), values: pick(values) });
    }
    while (nodes.length > 1) {
      const above: Node<V>[] = [];
      for (let at = 0; at < nodes.length; at += FILL) {
        const children = nodes.slice(at, at + FILL);
        above.push({ leaf: false, keys: children.map(firstKey), children });
      }
      nodes = above;
    }
    return new Tree<V>(nodes[0] ?? EMPTY, keys.length);
  }

  get(key: string): V | undefined {
    let node = this.root;
    while (!node.leaf) node = node.children[childIndex(node.keys, key)] as Node<V>;
    const at = lowerBound(node.keys, key);
    return node.keys[at] === key ? node.values[at] : undefined;
  }

  set(key: string, value: V): Tree<V> {
    const grown = { added: false };
    const nodes = insert(this.root, key, value, grown);
    const root: Node<V> =
      nodes.length === 1 ? (nodes[0] as Node<V>) : { leaf: false, keys: nodes.map(firstKey), children: nodes };
    return new Tree(root, this.size + (grown.added ? 1 : 0));
  }

  delete(key: string): Tree<V> {
    const root = remove(this.root, key);
    if (root === this.root) return this;
    let top: Node<V> = root ?? (EMPTY as Leaf<V>);
    while (!top.leaf && top.children.length === 1) top = top.children[0] as Node<V>;
    return new Tree(top, this.size - 1);
  }

  /** A cursor over the keys in [low, high), ascending or descending. */
  cursor(low: string, high: string, ascending: boolean): Cursor<V> {
    return new Cursor(this.root, low, high, ascending);
  }

  *entries(low = "", high = "\uffff", ascending = true): Generator<[string, V]> {
    const cursor = this.cursor(low, high, ascending);
    for (let entry = cursor.next(); entry !== null; entry = cursor.next()) yield entry;
  }
}

export class Cursor<V> {
  private readonly path: { node: Inner<V>; at: number }[] = [];
  private current: Leaf<V>;
  private at: number;

  constructor(
    root: Node<V>,
    private readonly low: string,
    private readonly high: string,
    private readonly ascending: boolean,
  ) {
    const start = ascending ? low : high;
    let node = root;
    while (!node.leaf) {
      const at = childIndex(node.keys, start);
      this.path.push({ node, at });
      node = node.children[at] as Node<V>;
    }
    this.current = node;
    this.at = ascending ? lowerBound(node.keys, start) : lowerBound(node.keys, start) - 1;
  }

  next(): [string, V] | null {
    while (this.at < 0 || this.at >= this.current.keys.length) if (!this.step()) return null;
    const key = this.current.keys[this.at] as string;
    if (this.ascending ? key >= this.high : key < this.low) return null;
    const value = this.current.values[this.at] as V;
    this.at += this.ascending ? 1 : -1;
    return [key, value];
  }

  private step(): boolean {
    const move = this.ascending ? 1 : -1;
    for (;;) {
      const top = this.path[this.path.length - 1];
      if (top === undefined) return false;
      top.at += move;
      if (top.at < 0 || top.at >= top.node.children.length) {
        this.path.pop();
        continue;
      }
      let node = top.node.children[top.at] as Node<V>;
      while (!node.leaf) {
        const at = this.ascending ? 0 : node.children.length - 1;
        this.path.push({ node, at });
        node = node.children[at] as Node<V>;
      }
      this.current = node;
      this.at = this.ascending ? 0 : node.keys.length - 1;
      return true;
    }
  }
}

/** The places of the keys in ascending order; null when they are in it. */
function sortedOrder(keys: readonly string[]): Uint32Array | null {
  if (keys.every((key, at) => at === 0 || (keys[at - 1] as string) < key)) return null;
  const places = Uint32Array.from(keys, (_, at) => at);
  return places.sort((a, b) => ((keys[a] as string) < (keys[b] as string) ? -1 : 1));
}

/** Index of the first key that is not smaller. */
function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((keys[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the child that may hold the key: the last one whose smallest key is not greater. */
function childIndex(keys: readonly string[], key: string): number {
  const at = lowerBound(keys, key);
  return at < keys.length && keys[at] === key ? at : Math.max(0, at - 1);
}

function firstKey<V>(node: Node<V>): string {
  return node.keys[0] as string;
}

function split<V>(node: Node<V>): Node<V>[] {
  if (node.keys.length <= WIDTH) return [node];
  const half = node.keys.length >> 1;
  if (node.leaf) {
    return [
      { leaf: true, keys: node.keys.slice(0, half), values: node.values.slice(0, half) },
      { leaf: true, keys: node.keys.slice(half), values: node.values.slice(half) },
    ];
  }
  return [
    { leaf: false, keys: node.keys.slice(0, half), children: node.children.slice(0, half) },
    { leaf: false, keys: node.keys.slice(half), children: node.children.slice(half) },
  ];
}

function insert<V>(node: Node<V>, key: string, value: V, grown: { added: boolean }): Node<V>[] {
  if (node.leaf) {
    const at = lowerBound(node.keys, key);
    const values = node.values.slice();
    if (node.keys[at] === key) {
      values[at] = value;
      return [{ leaf: true, keys: node.keys, values }];
    }
    grown.added = true;
    const keys = node.keys.slice();
    keys.splice(at, 0, key);
    values.splice(at, 0, value);
    return split<V>({ leaf: true, keys, values });
  }
  const at = childIndex(node.keys, key);
  const replaced = insert(node.children[at] as Node<V>, key, value, grown);
  const keys = node.keys.slice();
  const children = node.children.slice();
  keys.splice(at, 1, ...replaced.map(firstKey));
  children.splice(at, 1, ...replaced);
  return split<V>({ leaf: false, keys, children });
}

/** The node without the key: itself when the key is absent, null when nothing is left. */
function remove<V>(node: Node<V>, key: string): Node<V> | null {
  if (node.leaf) {
    const at = lowerBound(node.keys, key);
    if (node.keys[at] !== key) return node;
    if (node.keys.length === 1) return null;
    const keys = node.keys.slice();
    const values = node.values.slice();
    keys.splice(at, 1);
    values.splice(at, 1);
    return { leaf: true, keys, values };
  }
  const at = childIndex(node.keys, key);
  const child = node.children[at] as Node<V>;
  const rest = remove(child, key);
  if (rest === child) return node;
  const keys = node.keys.slice();
  const children = node.children.slice();
  if (rest === null) {
    if (children.length === 1) return null;
    keys.splice(at, 1);
    children.splice(at, 1);
  } else {
    children[at] = rest;
  }
  return { leaf: false, keys, children };
}
