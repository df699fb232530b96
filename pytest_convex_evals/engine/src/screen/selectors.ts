/**
 * A word that jsdom is spared: most selectors it is asked about, those of roles and of a browser's own styles, begin with the name of
 * an element that is another one. The bundle of the screen asks here before jsdom matches.
 */

const VALUE = String.raw`\[[a-z-]+(?:[~^$*|]?=(?:"[^"\\,]*"|[a-z0-9_-]+)(?: i)?)?\]`;
/** `input[type="text" i]:not([list]):checked`: the name of an element and conditions on it, without others that it stands in or beside. */
const SIMPLE = new RegExp(String.raw`^\s*([a-z][a-z0-9-]*)(?:${VALUE}|:[a-z-]+|:not\(${VALUE}\))*\s*$`, "i");
const MOST_LENGTH = 1_000;
const MOST_KEPT = 2_000;

const kept = new Map<string, ReadonlySet<string> | undefined>();

/** True when the selector names elements, and not this one; false says nothing. */
export function cannotMatch(selector: string, element: { localName: string }): boolean {
  let names = kept.get(selector);
  if (names === undefined && !kept.has(selector)) {
    names = namesOf(selector);
    if (kept.size < MOST_KEPT) kept.set(selector, names);
  }
  return names !== undefined && !names.has(element.localName.toLowerCase());
}

function namesOf(selector: string): ReadonlySet<string> | undefined {
  if (selector.length > MOST_LENGTH) return undefined;
  const names = new Set<string>();
  for (const part of selector.split(",")) {
    const name = SIMPLE.exec(part)?.[1];
    if (name === undefined) return undefined;
    names.add(name.toLowerCase());
  }
  return names;
}
