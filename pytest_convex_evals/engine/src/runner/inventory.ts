/**
 * What a context consists of before a call runs in it, and whether the call has left it as it was.
 *
 * A context takes longer to make than most calls take to run. One in which nothing differs from its beginning serves the next call,
 * which evaluates its modules anew; so nothing that a function keeps in variables, on the global object or on built-in classes outlives
 * it. Own properties of built-in methods are not looked at: nobody keeps anything there who does not want to cheat himself.
 */

type Readable = Record<PropertyKey, unknown>;

interface Entry {
  object: Readable;
  prototype: object | null;
  isExtensible: boolean;
  /** How many properties it has. */
  size: number;
  /** Properties that are simply read. */
  keys: readonly PropertyKey[];
  values: readonly unknown[];
  /** Properties with functions behind them, and all of the global object: a function may have come to stand behind one. */
  described: readonly { key: PropertyKey; get: unknown; set: unknown; value: unknown }[];
}

/** What an inventory of a context begins with, and what it leaves out. */
export interface Extent {
  roots: readonly unknown[];
  /** Belongs to somebody else, or is of a kind that nobody adds anything to. */
  left: readonly unknown[];
}

/** Gives the extent of the context in which it is evaluated: prototypes without a name are reached from what they are used by. */
export const EXTENT = `({
  roots: [globalThis, ...[
    (function* () {})(), (async function* () {})(), async () => {}, [][Symbol.iterator](), new Map().entries(), new Set().entries(),
    ""[Symbol.iterator](), "".matchAll(/a/g), Iterator.from({ next() {} }), [].values().map(() => 0),
  ].map((made) => Object.getPrototypeOf(made))],
  left: [Intl, WebAssembly].flatMap((space) => Object.getOwnPropertyNames(space).map((name) => space[name])),
})`;

export class Inventory {
  private readonly entries: Entry[] = [];

  constructor({ roots, left }: Extent, shared: readonly unknown[]) {
    const seen = new Set<unknown>([...left, ...shared]);
    const found: Readable[] = [];
    const visit = (value: unknown): void => {
      if (((typeof value !== "object" || value === null) && typeof value !== "function") || seen.has(value)) return;
      seen.add(value);
      if (!isMethod(value)) found.push(value as Readable);
    };
    roots.forEach(visit);
    for (let object = found.pop(); object !== undefined; object = found.pop()) this.entries.push(takeStock(object, object === roots[0], visit));
  }

  isUntouched(): boolean {
    return this.entries.every(isAsBefore);
  }
}

function takeStock(object: Readable, isGlobal: boolean, visit: (value: unknown) => void): Entry {
  const prototype = Object.getPrototypeOf(object) as object | null;
  const all = Reflect.ownKeys(object);
  const entry = { object, prototype, isExtensible: Object.isExtensible(object), size: all.length, keys: [] as PropertyKey[], values: [] as unknown[], described: [] as Entry["described"][number][] };
  visit(prototype);
  for (const key of all) {
    const { get, set, value } = Object.getOwnPropertyDescriptor(object, key) as PropertyDescriptor;
    if (isGlobal || get !== undefined || set !== undefined) entry.described.push({ key, get, set, value });
    else {
      entry.keys.push(key);
      entry.values.push(value);
    }
    [get, set, value].forEach(visit);
  }
  return entry;
}

function isAsBefore({ object, prototype, isExtensible, size, keys, values, described }: Entry): boolean {
  if (Object.getPrototypeOf(object) !== prototype || Object.isExtensible(object) !== isExtensible || Reflect.ownKeys(object).length !== size) return false;
  for (let at = 0; at < keys.length; at++) if (!Object.is(object[keys[at] as PropertyKey], values[at])) return false;
  for (const { key, get, set, value } of described) {
    const now = Object.getOwnPropertyDescriptor(object, key);
    if (now === undefined || now.get !== get || now.set !== set || !Object.is(now.value, value)) return false;
  }
  return true;
}

/** A function that is nobody's class. */
function isMethod(value: unknown): boolean {
  return typeof value === "function" && !Object.hasOwn(value, "prototype");
}
