/** A page of ours, shown and used once at set-up, so that what every page needs is compiled in the snapshot. */
import { startupSnapshot } from "node:v8";

import { byRole, seen, userOf } from "./acts.js";
import { JSDOM } from "./packages.js";
import { visibleText } from "./text.js";

const PAGE = `<!doctype html><html lang="en"><head><title>rehearsal</title></head><body>
<h1>Title</h1><p style="color: red">text</p><ul><li>one</li><li>two</li></ul><label>Name <input></label>
<select><option>a</option></select><button type="button">Go</button><a href="#x">link</a></body></html>`;
const ROLES = ["heading", "list", "listitem", "textbox", "combobox", "button", "link"];

export function rehearse(): void {
  // Without scripts: a context of its own would not fit into a snapshot.
  const { window } = new JSDOM(PAGE, { url: "http://localhost:5173/", pretendToBeVisual: false });
  const { body } = window.document;
  visibleText(body);
  for (const role of ROLES) for (const element of byRole(body, role, null)) seen(element, role);
  // Styles of its own make a page slower to look at.
  window.document.head.append(Object.assign(window.document.createElement("style"), { textContent: "li { color: red }" }));
  byRole(body, "listitem", null);
  byRole(body, "button", { text: "Go" });
  userOf(body);
  body.replaceChildren(window.document.createElement("div"));
  body.dispatchEvent(new window.Event("click", { bubbles: true }));
  window.close();
  // Once its last events are over.
  startupSnapshot.addSerializeCallback(() => strip(window));
}

/** The styles of a browser, which are parsed once, keep the window they were parsed for; of that, no page needs anything. */
function strip(held: object): void {
  for (const key of Object.getOwnPropertySymbols(held)) {
    const value: unknown = Reflect.getOwnPropertyDescriptor(held, key)?.value;
    if (typeof value === "object" && value !== null) strip(value);
  }
  for (const key of Object.getOwnPropertyNames(held)) {
    const value: unknown = Reflect.getOwnPropertyDescriptor(held, key)?.value;
    if (typeof value === "function" && /^CSS/.test(key)) strip((value as { prototype: object }).prototype);
    Reflect.deleteProperty(held, key);
  }
}
