/**
 * A word that jsdom is spared: most selectors it is asked about, those of roles and of a browser's own styles, name other elements than
 * the one at hand, or attributes that it does not have. The bundle of the screen asks here before jsdom matches.
 */

/** What is looked at of an element. */
export interface Subject {
  localName: string;
  getAttributeNames(): string[];
  ownerDocument: { activeElement: unknown };
  parentElement: Subject | null;
}

/** What the last part of a selector, the one about the element itself, asks for; each of it must hold. */
interface Part {
  name: string | undefined;
  attributes: readonly string[];
  focused: boolean;
  /** It is about something that an element generates. */
  generated: boolean;
  /** One of each list must hold, too. */
  lists: readonly (readonly Part[])[];
  /** An element that it must be in. */
  within: Part | undefined;
}

const MOST_LENGTH = 5_000;
const MOST_KEPT = 2_000;
const MOST_DEPTH = 4;
const BLANK = /\s*/y;
const NAME = /\*|[a-z][a-z0-9-]*/iy;
const ATTRIBUTE = /\[([a-z][a-z-]*)(?:[~^$*|]?=(?:"[^"\\\n]*"|[a-z0-9_-]+)(?: i)?)?\]/iy;
const KEY = /[#.][a-z_][a-z0-9_-]*/iy;
const PSEUDO = /:(is|not|where)\(|:dir\((?:ltr|rtl)\)|::?[a-z-]+(?![a-z(-])/iy;
const BESIDE = /\s*[>+~]\s*|\s+(?![\s,)]|$)/y;
const ANY: Part = { name: undefined, attributes: [], focused: false, generated: false, lists: [], within: undefined };
/** What these ask for. The rest of those that are known asks for something that is not looked at. */
const ASKS: Readonly<Record<string, Partial<Part>>> = {
  ":link": { attributes: ["href"] },
  ":visited": { attributes: ["href"] },
  ":popover-open": { attributes: ["popover"] },
  ":focus-visible": { focused: true },
  ":autofill": { lists: [["input", "select", "textarea"].map((name) => ({ ...ANY, name }))] },
};
const KNOWN: ReadonlySet<string> = new Set(
  (
    ":active :checked :disabled :empty :enabled :first-child :first-of-type :focus :hover :last-child :last-of-type " +
    ":modal :only-child :only-of-type :optional :required :root ::after ::backdrop ::before ::marker ::placeholder"
  ).split(" "),
);

class Unknown extends Error {}

const kept = new Map<string, readonly Part[] | undefined>();

/** True when the selector asks for something that the element is not or does not have; false says nothing. */
export function cannotMatch(selector: string, element: Subject): boolean {
  let parts = kept.get(selector);
  if (parts === undefined && !kept.has(selector)) {
    parts = read(selector);
    if (kept.size < MOST_KEPT) kept.set(selector, parts);
  }
  if (parts === undefined) return false;
  return !parts.some((part) => fits(element, part));
}

function fits(element: Subject, part: Part): boolean {
  return (
    (part.name === undefined || part.name === element.localName.toLowerCase()) &&
    part.attributes.every((name) => has(element, name)) &&
    (!part.focused || element.ownerDocument.activeElement === element) &&
    part.lists.every((list) => list.some((one) => fits(element, one))) &&
    (part.within === undefined || isWithin(element, part.within))
  );
}

function has(element: Subject, wanted: string): boolean {
  return element.getAttributeNames().some((name) => name.toLowerCase() === wanted || name.toLowerCase().endsWith(`:${wanted}`));
}

function isWithin(element: Subject, part: Part): boolean {
  for (let outer = element.parentElement; outer !== null; outer = outer.parentElement) if (fits(outer, part)) return true;
  return false;
}

/** What one of its last parts must ask for; nothing when there is something in it that is not understood. */
function read(selector: string): readonly Part[] | undefined {
  if (selector.length > MOST_LENGTH) return undefined;
  try {
    const reader = new Reader(selector);
    const parts = reader.list(0);
    return reader.isAtEnd() ? parts : undefined;
  } catch (error) {
    if (error instanceof Unknown) return undefined;
    throw error;
  }
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  isAtEnd = (): boolean => this.at === this.text.length;

  list(depth: number): Part[] {
    if (depth > MOST_DEPTH) throw new Unknown();
    const parts: Part[] = [];
    do {
      this.take(BLANK);
      let part = this.compound(depth);
      for (let beside = this.take(BESIDE); beside !== undefined; beside = this.take(BESIDE)) {
        // What stands beside something that is no element is not a selector.
        if (part.generated) throw new Unknown();
        const within: Part | undefined = /[+~]/.test(beside[0]) ? part.within : part;
        part = { ...this.compound(depth), within };
      }
      parts.push(part);
      this.take(BLANK);
    } while (this.skip(","));
    return parts;
  }

  private compound(depth: number): Part {
    const begun = this.at;
    const name = this.take(NAME)?.[0].toLowerCase();
    const attributes: string[] = [];
    const lists: (readonly Part[])[] = [];
    let focused = false;
    let generated = false;
    for (;;) {
      const attribute = this.take(ATTRIBUTE)?.[1];
      if (attribute !== undefined) {
        attributes.push(attribute.toLowerCase());
        continue;
      }
      if (this.take(KEY) !== undefined) continue;
      const pseudo = this.take(PSEUDO);
      if (pseudo === undefined) break;
      const word = pseudo[0].toLowerCase();
      if (pseudo[1] !== undefined) {
        const inner = this.list(depth + 1);
        if (!this.skip(")")) throw new Unknown();
        if (pseudo[1].toLowerCase() !== "not") lists.push(inner);
        continue;
      }
      const asks = ASKS[word];
      if (asks === undefined && !KNOWN.has(word) && !word.startsWith(":dir(")) throw new Unknown();
      attributes.push(...(asks?.attributes ?? []));
      lists.push(...(asks?.lists ?? []));
      focused ||= asks?.focused ?? false;
      generated ||= word.startsWith("::");
    }
    if (this.at === begun) throw new Unknown();
    return { name: name === "*" ? undefined : name, attributes, focused, generated, lists, within: undefined };
  }

  private take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null || (found[0] === "" && pattern !== BLANK)) return undefined;
    this.at = pattern.lastIndex;
    return found;
  }

  private skip(sign: string): boolean {
    if (this.text[this.at] !== sign) return false;
    this.at++;
    return true;
  }
}
