// What the snapshot of a screen is spared: starting from it takes time by its size, and half of it would be texts that no screen reads.
// Each file of a package that is changed is checked to be as it was when the change was thought out; another version of it stops the build.
import { readFileSync } from "node:fs";

function changed(path) {
  throw new Error(`${path} is written in another way now`);
}

/** Each `from` is there once, and is replaced. */
const replaced = (...pairs) => (text, path) =>
  pairs.reduce((changing, [from, to]) => {
    const [before, after, ...more] = changing.split(from);
    if (after === undefined || more.length > 0) changed(path);
    return before + to + after;
  }, text);

const behind = (head, put) => replaced([head, `${head}${put}\n`]);

/** Of the facts about properties of styles, those that are asked for. */
function factsThatAreRead(text, path) {
  const read = new Set(["inherited", "initial", "logicalPropertyGroup", "longhands"]);
  const module = {};
  new Function("module", text)(module);
  if (!(module.exports instanceof Map)) changed(path);
  const kept = [...module.exports].map(([name, facts]) => [name, Object.fromEntries(Object.entries(facts).filter(([fact]) => read.has(fact)))]);
  return `module.exports = new Map(JSON.parse(${JSON.stringify(JSON.stringify(kept))}));`;
}

/** Data, read when the snapshot is made: an object that is written down in a program is kept twice. */
const data = (change = "(data) => data") => (_, path) =>
  `module.exports = (${change})(JSON.parse(require("node:fs").readFileSync(${JSON.stringify(path)}, "utf8")));`;

/** Of a dictionary of CSS, what is read as CSS: the syntax of each entry and of its descriptors. */
function syntaxOnly(dictionary) {
  const bare = ({ syntax, descriptors }) => ({ syntax, descriptors: descriptors && mapped(descriptors) });
  const mapped = (entries) => Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, bare(entry)]));
  return mapped(dictionary);
}

/** Of an HTTP client, what a page is connected by. */
function clientOfPages(text, path) {
  const prototype = "Object.assign(Dispatcher.prototype, api)\n";
  const exported = ["Dispatcher", "DecoratorHandler", "getGlobalDispatcher", "WebSocket"];
  if (!text.includes(prototype) || !exported.every((name) => text.includes(`module.exports.${name} = ${name}\n`))) changed(path);
  return `
const Dispatcher = require("./lib/dispatcher/dispatcher");
const api = require("./lib/api");
const { getGlobalDispatcher } = require("./lib/global");
const DecoratorHandler = require("./lib/handler/decorator-handler");
const { WebSocket } = require("./lib/web/websocket/websocket");
${prototype}module.exports = { ${exported.join(", ")} };`;
}

const PAIR = / {4}get ("[a-z-]+"|\w+)\(\) \{\n(?: {6}.*\n|\n)* {4}\}\n\n {4}set \1\(V\) \{\n(?: {6}.*\n|\n)* {4}\}\n\n?/gi;
const THIS_PROPERTY = "THIS_PROPERTY";

/** The accessors of the properties of a style, which differ only in a name, written once. */
function accessorsOnce(text, path) {
  const begun = text.indexOf("  class CSSStyleProperties ");
  const listed = text.indexOf("  Object.defineProperties(CSSStyleProperties.prototype, {\n");
  const own = text.indexOf("    [Symbol.toStringTag]", listed);
  if (begun < 0 || listed < begun || own < listed) changed(path);
  const names = [];
  let written;
  const bare = text.slice(begun, listed).replace(PAIR, (pair, key) => {
    const name = JSON.parse(key.startsWith('"') ? key : `"${key}"`);
    names.push(name);
    const same = pair
      .replace(/\s+/g, " ")
      .replaceAll(new RegExp(`(?<![\\w-])${name}(?![\\w-])`, "g"), THIS_PROPERTY)
      .replaceAll(new RegExp(`([gs]et) "?${THIS_PROPERTY}"?\\(`, "g"), `$1 ${THIS_PROPERTY}(`);
    if (same !== (written ??= same)) changed(path);
    return "";
  });
  const list = names.map((name) => `${/-/.test(name) ? JSON.stringify(name) : name}: { enumerable: true },`);
  if (names.length < 1000 || /\b[gs]et\b/.test(bare) || text.slice(listed, own).replace(/^.*\n|\s+/g, "") !== list.join("").replace(/\s+/g, "")) changed(path);
  const once = written
    .replace(/^ get THIS_PROPERTY\(\)/, "const read = (self, name) =>")
    .replace(/\} set THIS_PROPERTY\(V\)/, "};\n  const write = (self, name, V) =>")
    .replaceAll(/\bthis\b/g, "self")
    .replaceAll(new RegExp(`"([^"]*)'(get |set |)${THIS_PROPERTY}'([^"]*)"`, "g"), "`$1'$2${name}'$3`")
    .replaceAll(`["${THIS_PROPERTY}"]`, "[name]");
  if (once.includes(THIS_PROPERTY)) changed(path);
  const pairs = names.map((name) => JSON.stringify(name)).map((name) => `get ${name}() { return read(this, ${name}); } set ${name}(V) { write(this, ${name}, V); }`);
  return `${text.slice(0, begun)}  ${once};
${bare.trimEnd().slice(0, -1)}${pairs.join("\n")}
  }
  for (const name of ${JSON.stringify(names.join(" "))}.split(" ")) Object.defineProperty(CSSStyleProperties.prototype, name, { enumerable: true });
  Object.defineProperties(CSSStyleProperties.prototype, {
${text.slice(own)}`;
}

const CHANGES = [
  // Where jsdom matches a selector, and what it answers when a look at the element is enough.
  [/nodes.Element-impl\.js$/, behind("  matches(selectors) {\n", "if (cannotMatch(selectors, this)) return false;"), true],
  [
    /computed-style\.js$/,
    behind("function matches(selectorText, elementImpl) {\n", "if (cannotMatch(selectorText, elementImpl)) return { match: false };"),
    true,
  ],
  [/generated.css-property-definitions\.js$/, factsThatAreRead],
  [/generated.idl.CSSStyleProperties\.js$/, accessorsOnce],
  // A lexer knows the grammar of every property. There is one for each form of the language, and only one form is used.
  [
    /css-tree.cjs.syntax.create\.cjs$/,
    replaced(
      ["    syntax.lexer = new Lexer.Lexer({\n", "    const made = () => new Lexer.Lexer({\n"],
      [
        "    }, syntax);\n\n    return syntax;",
        `    }, syntax);
    const become = (value) => Object.defineProperty(syntax, "lexer", { value, configurable: true, enumerable: true, writable: true });
    return Object.defineProperty(syntax, "lexer", { configurable: true, enumerable: true, get: () => become(made()).lexer, set: become });`,
      ],
    ),
  ],
  [
    /css-tree.cjs.index\.cjs$/,
    replaced(["    lexer,\n", ""], ["exports.lexer = lexer;", `Object.defineProperty(exports, "lexer", { enumerable: true, get: () => index$1.lexer });`]),
  ],
  [/mdn-data.css.(properties|syntaxes|at-rules)\.json$/, data(syntaxOnly)],
  [/\.json$/, data()],
  [/undici.index\.js$/, clientOfPages],
];

/** For esbuild; `selectors` is the module that knows what cannot match. */
export function slim(selectors) {
  return {
    name: "slim",
    setup({ onLoad }) {
      for (const [filter, change, asks] of CHANGES) {
        onLoad({ filter }, ({ path }) => {
          const contents = change(readFileSync(path, "utf8"), path);
          const from = asks ? `const { cannotMatch } = require(${JSON.stringify(selectors)});\n` : "";
          return { contents: from + contents, loader: "js" };
        });
      }
    },
  };
}
