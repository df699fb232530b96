/**
 * Type checkers that know the packages already.
 *
 * Most of a type check is spent on the types of `convex` itself, and is the same for every submission. The compiler makes a checker
 * for one program only; here a checker is made over a host that stands for the program of the moment, so that the next submission
 * finds what the checker has learned about libraries and packages. That is sound as long as a submission adds modules and nothing
 * global. Where it does more, and wherever something is found, the ordinary way decides: what a checker with a past says is used as
 * proof that there is nothing to find.
 *
 * `createTypeChecker` and `bindSourceFile` are not part of the compiler's published interface; the version of the compiler is locked.
 */
import ts from "typescript";

interface Bound extends ts.SourceFile {
  moduleAugmentations?: readonly unknown[];
  patternAmbientModules?: readonly unknown[];
  ambientModuleNames?: readonly string[];
  jsGlobalAugmentations?: unknown;
  commonJsModuleIndicator?: unknown;
  redirectInfo?: unknown;
  symbol?: ts.Symbol & { globalExports?: unknown };
  bindDiagnostics: readonly ts.Diagnostic[];
}

interface Checker extends ts.TypeChecker {
  getDiagnostics(file: ts.SourceFile): readonly ts.Diagnostic[];
}

interface Compiler {
  createTypeChecker(host: object): Checker;
  bindSourceFile(file: ts.SourceFile, options: ts.CompilerOptions): void;
}

interface FullProgram extends ts.Program {
  getProgramDiagnostics(file: ts.SourceFile): readonly ts.Diagnostic[];
}

/** A checker remembers everything it has checked; after so many programs another one starts afresh. */
const MOST_PROGRAMS = 80;
/** Kinds of projects that are remembered. */
const MOST_CHECKERS = 4;

const compiler = ts as unknown as Compiler;

class Experienced {
  private readonly files = new Set<string>();
  private programs = 0;
  private program: FullProgram;
  private readonly checker: Checker;

  constructor(first: FullProgram) {
    this.program = first;
    this.checker = compiler.createTypeChecker(new Proxy({}, { get: (_, name) => Reflect.get(this.program, name) as unknown }));
  }

  /** It keeps complaints by the names of files. */
  takes(own: readonly Bound[]): boolean {
    return this.programs < MOST_PROGRAMS && own.every((file) => !this.files.has(file.fileName));
  }

  /** Whether something is wrong with these files; the program uses this checker from now on. */
  finds(program: FullProgram, own: readonly Bound[]): boolean {
    this.program = program;
    this.programs += 1;
    for (const file of own) this.files.add(file.fileName);
    program.getTypeChecker = () => this.checker;
    return own.some(
      (file) =>
        !file.isDeclarationFile &&
        (program.getSyntacticDiagnostics(file).length > 0 ||
          program.getProgramDiagnostics(file).length > 0 ||
          file.bindDiagnostics.length > 0 ||
          this.checker.getDiagnostics(file).length > 0),
    );
  }
}

const experienced = new Map<string, Experienced>();

/** Whether an experienced checker finds nothing wrong in a program, and answers for its types from now on. */
export function isProvenClean(program: ts.Program, isOwn: (file: ts.SourceFile) => boolean): boolean {
  const options = program.getCompilerOptions();
  if (options.paths !== undefined) return false;
  const global: string[] = [];
  const own: Bound[] = [];
  for (const file of program.getSourceFiles() as readonly Bound[]) {
    compiler.bindSourceFile(file, options);
    const isGlobal = addsGlobals(file);
    if (isOwn(file)) own.push(file);
    else if (isGlobal) global.push(file.fileName);
    if (isGlobal && isOwn(file)) return false;
  }
  const { typeRoots: _, ...decisive } = options;
  const key = JSON.stringify([decisive, global]);
  let known = experienced.get(key);
  if (known?.takes(own) !== true) known = new Experienced(program as FullProgram);
  experienced.delete(key);
  experienced.set(key, known);
  for (const oldest of [...experienced.keys()].slice(0, -MOST_CHECKERS)) experienced.delete(oldest);
  return !known.finds(program as FullProgram, own);
}

/** What a checker looks at when it begins, and never again. */
function addsGlobals(file: Bound): boolean {
  if (file.redirectInfo !== undefined) return false;
  return (
    !(ts.isExternalModule(file) || file.commonJsModuleIndicator !== undefined) ||
    (file.moduleAugmentations?.length ?? 0) > 0 ||
    (file.patternAmbientModules?.length ?? 0) > 0 ||
    (file.ambientModuleNames?.length ?? 0) > 0 ||
    file.jsGlobalAugmentations !== undefined ||
    file.symbol?.globalExports !== undefined
  );
}
