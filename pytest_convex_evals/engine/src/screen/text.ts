/** What a reader sees of a document: no layout, but hidden parts left out and blocks on lines of their own. */
import { Refusal } from "./protocol.js";

const SILENT: ReadonlySet<string> = new Set(["SCRIPT", "STYLE", "TEMPLATE", "NOSCRIPT", "TEXTAREA", "HEAD", "TITLE", "DATALIST"]);
const BLOCKS: ReadonlySet<string> = new Set(
  (
    "ADDRESS ARTICLE ASIDE BLOCKQUOTE BODY DD DETAILS DIALOG DIV DL DT FIELDSET FIGCAPTION FIGURE FOOTER FORM H1 H2 H3 H4 H5 H6 " +
    "HEADER HGROUP HR LI MAIN MENU NAV OL OPTION P PRE SEARCH SECTION SUMMARY TABLE TBODY TFOOT THEAD TR UL"
  ).split(" "),
);
const CELLS: ReadonlySet<string> = new Set(["TD", "TH", "BUTTON", "LABEL", "SELECT"]);
const MOST_NODES = 20_000;
const MOST_TEXT = 256 * 1024;
const TEXT_NODE = 3;
const ELEMENT_NODE = 1;

/** Lines without blanks at their ends; a document that is too big is refused. */
export function visibleText(root: Element): string {
  const view = root.ownerDocument.defaultView as Window;
  const styled = root.ownerDocument.querySelector("style") !== null;
  const parts: string[] = [];
  let nodes = 0;
  let length = 0;

  const add = (text: string): void => {
    length += text.length;
    if (length > MOST_TEXT) throw new Refusal("too_big", `the page shows more than ${MOST_TEXT} characters`);
    parts.push(text);
  };
  const isHidden = (element: HTMLElement): boolean => {
    if (SILENT.has(element.tagName) || element.hasAttribute("hidden")) return true;
    if (!styled && !element.hasAttribute("style")) return false;
    const { display, visibility } = view.getComputedStyle(element);
    return display === "none" || visibility === "hidden";
  };
  const visit = (node: Node): void => {
    if (++nodes > MOST_NODES) throw new Refusal("too_big", `the page has more than ${MOST_NODES} nodes`);
    if (node.nodeType === TEXT_NODE) return add((node.nodeValue ?? "").replace(/\s+/g, " "));
    if (node.nodeType !== ELEMENT_NODE || isHidden(node as HTMLElement)) return;
    const { tagName } = node as HTMLElement;
    if (tagName === "BR") return add("\n");
    const edge = BLOCKS.has(tagName) ? "\n" : CELLS.has(tagName) ? " " : "";
    if (edge) add(edge);
    for (let child = node.firstChild; child !== null; child = child.nextSibling) visit(child);
    if (edge) add(edge);
  };

  visit(root);
  return parts
    .join("")
    .split("\n")
    .map((line) => line.replace(/\s+/g, " ").trim())
    .filter((line) => line !== "")
    .join("\n");
}

/** The same on one line. */
export const lineOf = (element: Element): string => visibleText(element).replace(/\n/g, " ");
