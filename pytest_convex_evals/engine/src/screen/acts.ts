/** Finding and doing things as a user does, by Testing Library. */
import { computeAccessibleName, userEvent, within, type Matcher, type Query, type User } from "./packages.js";
import { Refusal } from "./protocol.js";
import { isReachable } from "./reachable.js";
import { lineOf } from "./text.js";

/** How a name is asked for: the exact text, or a regular expression. */
export interface Name {
  text?: string;
  pattern?: string;
  flags?: string;
}

/** An element as the grader sees it. */
export interface Seen {
  role: string;
  name: string;
  text: string;
  value: string | null;
  checked: boolean | null;
  disabled: boolean;
}

const users = new WeakMap<Document, User>();
const FIELDS = ["textbox", "searchbox", "spinbutton", "combobox"];

export function userOf(body: HTMLElement): User {
  const document = body.ownerDocument;
  let user = users.get(document);
  if (user === undefined) users.set(document, (user = userEvent.setup({ document, delay: null })));
  return user;
}

export function byRole(body: HTMLElement, role: string, name: Name | null): HTMLElement[] {
  const wanted = matcher(name);
  const found = (within(body).queryAllByRole as Query)(role, { hidden: true, ...(wanted === undefined ? {} : { name: wanted }) });
  return found.filter(isReachable);
}

/** A field by its label, its placeholder or its accessible name, whichever finds it first. */
export function fieldOf(body: HTMLElement, name: Name | null): HTMLElement {
  const wanted = matcher(name);
  const queries = within(body) as Record<string, Query>;
  const ways =
    wanted === undefined
      ? []
      : [
          () => (queries.queryAllByLabelText as Query)(wanted).filter(isField),
          () => (queries.queryAllByPlaceholderText as Query)(wanted),
        ];
  ways.push(() => FIELDS.flatMap((role) => byRole(body, role, name)));
  for (const way of ways) {
    const found = way();
    if (found.length > 0) return only(found, "field", name);
  }
  return only([], "field", name);
}

export function only(found: HTMLElement[], what: string, name: Name | null): HTMLElement {
  const called = name === null ? "" : ` called ${name.text === undefined ? `/${name.pattern ?? ""}/` : JSON.stringify(name.text)}`;
  if (found.length === 1) return found[0] as HTMLElement;
  if (found.length === 0) throw new Refusal("not_found", `there is no ${what}${called}`);
  throw new Refusal("ambiguous", `there are ${found.length} of ${what}${called}`);
}

export function seen(element: HTMLElement, role: string): Seen {
  const { value, checked, disabled } = element as HTMLInputElement;
  const pressed = element.getAttribute("aria-checked");
  return {
    role,
    name: computeAccessibleName(element),
    text: lineOf(element),
    value: "value" in element && typeof value === "string" ? value : null,
    checked: typeof checked === "boolean" ? checked : pressed === null ? null : pressed === "true",
    disabled: disabled === true || element.getAttribute("aria-disabled") === "true",
  };
}

/** Text for the keyboard, with the characters that would mean keys taken literally. */
export const literally = (text: string): string => text.replace(/[{[]/g, "$&$&");

const isField = (element: HTMLElement): boolean => /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) || element.isContentEditable;

function matcher(name: Name | null): Matcher | undefined {
  if (name === null) return undefined;
  return name.text ?? new RegExp(name.pattern ?? "", name.flags ?? "u");
}
