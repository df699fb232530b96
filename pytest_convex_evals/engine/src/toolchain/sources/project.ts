/**
 * The submission as TypeScript sees it: parsed in memory, without packages, library files or the disk.
 *
 * A file that is too large or nested too deeply for a recursive reader is left out and reported as unreadable; a file
 * with syntax errors stays, with what the parser could make of it.
 */
import ts from "typescript";

export interface SyntaxSlip {
  line: number;
  message: string;
}
export interface FileState {
  readable: boolean;
  reason: string | null;
  errors: SyntaxSlip[];
}

export interface Project {
  files: Map<string, ts.SourceFile>;
  states: Map<string, FileState>;
  checker: ts.TypeChecker;
  /** Where Convex looks for functions, with a slash at the end. */
  functionsDir: string;
  dependencies: Record<string, string>;
}

const CODE = /\.[cm]?[jt]sx?$/;
const MAX_CHARACTERS = 2_000_000;
const MAX_DEPTH = 700;
const MAX_SLIPS = 50;

const OPTIONS: ts.CompilerOptions = {
  allowJs: true,
  jsx: ts.JsxEmit.Preserve,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  noLib: true,
  noResolve: true,
  target: ts.ScriptTarget.ESNext,
  types: [],
};

export function openProject(given: ReadonlyMap<string, string>): Project {
  const files = new Map<string, ts.SourceFile>();
  const states = new Map<string, FileState>();
  for (const [path, text] of given) {
    if (!CODE.test(path) || path.endsWith(".d.ts") || /(^|\/)(_generated|node_modules)\//.test(path)) continue;
    const parsed = parse(path, text);
    if (typeof parsed === "string") states.set(path, { readable: false, reason: parsed, errors: [] });
    else files.set(path, parsed);
  }
  const program = ts.createProgram([...files.keys()], OPTIONS, memoryHost(files));
  const checker = program.getTypeChecker();
  for (const [path, file] of files) {
    const slips = program.getSyntacticDiagnostics(file).slice(0, MAX_SLIPS);
    states.set(path, { readable: true, reason: null, errors: slips.map((slip) => describe(file, slip)) });
  }
  return { files, states, checker, functionsDir: functionsDir(given), dependencies: dependencies(given) };
}

function parse(path: string, text: string): ts.SourceFile | string {
  if (text.length > MAX_CHARACTERS) return `longer than ${MAX_CHARACTERS} characters`;
  try {
    const file = ts.createSourceFile(path, text, { languageVersion: ts.ScriptTarget.ESNext }, true);
    return tooDeep(file) ? "nested too deeply" : file;
  } catch (error) {
    return error instanceof RangeError ? "nested too deeply" : "the parser failed on it";
  }
}

/** Iterative on purpose: it protects the recursive readers that come after it. */
function tooDeep(file: ts.SourceFile): boolean {
  let level: ts.Node[] = [file];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return true;
    const next: ts.Node[] = [];
    for (const node of level) ts.forEachChild(node, (child) => void next.push(child));
    level = next;
  }
  return false;
}

function memoryHost(files: ReadonlyMap<string, ts.SourceFile>): ts.CompilerHost {
  return {
    fileExists: (path) => files.has(path),
    getCanonicalFileName: (path) => path,
    getCurrentDirectory: () => "",
    getDefaultLibFileName: () => "lib.d.ts",
    getNewLine: () => "\n",
    getSourceFile: (path) => files.get(path),
    readFile: (path) => files.get(path)?.text,
    useCaseSensitiveFileNames: () => true,
    writeFile: () => undefined,
  };
}

function describe(file: ts.SourceFile, slip: ts.Diagnostic): SyntaxSlip {
  return { line: lineOf(file, slip.start ?? 0), message: ts.flattenDiagnosticMessageText(slip.messageText, " ") };
}

export const lineOf = (file: ts.SourceFile, position: number): number =>
  file.getLineAndCharacterOfPosition(position).line + 1;

/** JSON as people write it: comments and trailing commas are forgiven, anything else gives an empty object. */
function lenientJson(text: string | undefined): Record<string, unknown> {
  if (text === undefined || text.length > MAX_CHARACTERS) return {};
  try {
    const { config } = ts.parseConfigFileTextToJson("package.json", text) as { config?: unknown };
    return typeof config === "object" && config !== null ? (config as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function functionsDir(given: ReadonlyMap<string, string>): string {
  const named = lenientJson(given.get("convex.json"))["functions"];
  if (typeof named !== "string") return "convex/";
  return `${named.replace(/^\.\//, "").replace(/\/+$/, "")}/`;
}

function dependencies(given: ReadonlyMap<string, string>): Record<string, string> {
  const manifest = lenientJson(given.get("package.json"));
  const found: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const field of ["peerDependencies", "optionalDependencies", "devDependencies", "dependencies"]) {
    const table = manifest[field];
    if (typeof table !== "object" || table === null) continue;
    for (const [name, version] of Object.entries(table)) if (typeof version === "string") found[name] = version;
  }
  return found;
}
