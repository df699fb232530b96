/** Which elements assistive technology is told of; queries by role leave out the others. */
import { isInaccessible } from "./packages.js";

/** Elements that only a style sheet or an attribute can hide. */
const PLAIN: ReadonlySet<string> = new Set(
  (
    "a abbr address article aside b blockquote body button caption code dd div dl dt em fieldset figcaption figure footer form h1 h2 h3 " +
    "h4 h5 h6 header hr html i img label legend li main mark menu nav ol p pre search section select small span strong sub sup table " +
    "tbody td textarea tfoot th thead tr u ul"
  ).split(" "),
);
const HIDING = ["aria-hidden", "hidden", "popover", "style"];
const INPUT = "input";

/**
 * Testing Library asks for the computed style of every element and all that it is in, which takes longer than everything else about a
 * query. It is asked where styles can be at work.
 */
export function isReachable(element: Element): boolean {
  if (element.ownerDocument.styleSheets.length === 0 && isPlain(element)) return true;
  return !isInaccessible(element);
}

function isPlain(element: Element): boolean {
  for (let current: Element | null = element; current !== null; current = current.parentElement) {
    const name = current.localName;
    if (!PLAIN.has(name) && !(name === INPUT && current.getAttribute("type")?.toLowerCase() !== "hidden")) return false;
    for (const hiding of HIDING) if (current.hasAttribute(hiding)) return false;
  }
  return true;
}
