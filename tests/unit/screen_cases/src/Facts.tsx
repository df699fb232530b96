/** What a page finds out about the window it is in. */
import { useEffect, useState } from "react";

const SELECTORS = [
  "li", "LI", "ul, ol", "li,p", "p[hidden]", "p:not([hidden])", "input[type=\"checkbox\" i]", "input:not([type])", "ul li",
  "ul > li", "li:first-child", ":not(li)", "[role~=row]", "*", "svg", "a[href]", "A , li", "li::before", "path",
  "linearGradient", "h1.x", "#here", ":link", ":focus-visible", ":autofill", "[HREF]", "main li", "li + li",
  ":is(ul, ol) :is(li, p)", ":where(main) > .gone", "li:not(:first-child, .gone)", "[popover]:popover-open",
  "ul>li[hidden] , main   ~ p", "a[href=\"#x\"]::before", "[viewBox]", "[viewbox]", ":dir(ltr)", "label input", ":root",
  "p li", "ul > p, table td", "tr > td", "svg a", "ul + label", "div li + li", "main ~ li", "main li + li", "body > * > main h1",
];
const WRONG = [
  "li:is(", "li >", "> li", "li, ", "li:nonsense", "::before li", "li[", "li[x=]", "li::before p", ":is()x", "li::x", "*li",
];
const RULES = [
  "color: RED; margin: 1px 2px; border: 1px solid currentcolor", "display: nonsense", "width: calc(1px + 2em)",
  "background: url(x) no-repeat #fff", "transition: all 1s ease-in, color 2s", "font: italic 12px/1 serif", "--own: a b",
];

function Facts() {
  const [facts, setFacts] = useState("");
  useEffect(() => {
    const all = [...document.querySelectorAll("*")];
    const matched = SELECTORS.map((s) => `${s}: ${all.flatMap((e, n) => (e.matches(s) ? [n] : [])).join(" ")}`);
    const outcome = (call: () => unknown): unknown => {
      try {
        return call();
      } catch (error: any) {
        return `${error.name}: ${error.message} ${error instanceof TypeError}`;
      }
    };
    const wrong = WRONG.map((s) => `${s}: ${outcome(() => all.filter((e) => e.matches(s)).length)}`);
    const properties = Object.entries(Object.getOwnPropertyDescriptors(CSSStyleProperties.prototype)).map(
      ([name, { get, set, enumerable, configurable }]) => [name, get?.name, set?.name, set?.length, enumerable, configurable].join(" "),
    );
    const { style } = all[0] as any;
    const prototype = CSSStyleProperties.prototype as any;
    const set = (name: string, value: any): string => {
      style[name] = value;
      return style.cssText;
    };
    const rules = RULES.map((rule) => set("cssText", rule));
    const named = [set("color", "red"), set("margin-top", 3), set("WebkitTransform", "none"), set("cssFloat", "left")];
    const refused = [() => prototype.color, () => (prototype.zIndex = 1), () => set("color", Symbol())].map(outcome);
    const styles = all.map((e) => [e.localName, getComputedStyle(e).display, getComputedStyle(e).visibility].join(" "));
    const kinds = [Headers, Request, Response, FormData, TextDecoder, AbortController].map((kind) => kind.name);
    const words = [new TextDecoder("utf-16le").decode(new Uint8Array([104, 0, 105, 0])), typeof SharedArrayBuffer];
    setFacts(
      [...matched, ...wrong, ...properties, ...rules, ...named, ...refused, ...styles, ...kinds, ...words, "done"].join(
        " | ",
      ),
    );
  }, []);
  return <pre>{facts}</pre>;
}

export default () => (
  <main>
    <style>{".gone { display: none } .unseen { visibility: hidden }"}</style>
    <h1 className="x" id="here">Title</h1>
    <ul><li>one</li><li hidden>two</li><li className="gone">three</li><li className="unseen">four</li></ul>
    <label>Name <input /></label><input type="checkbox" aria-label="yes" /><button disabled>Go</button>
    <select aria-label="size"><option>big</option></select><a href="#x">link</a><img alt="picture" />
    <table><tbody><tr><td>cell</td></tr></tbody></table><div role="row">like a row</div><p hidden>hidden</p>
    <svg viewBox="0 0 1 1"><linearGradient id="g" /><a href="#y">drawn</a><path d="" /></svg>
    <Facts />
  </main>
);
