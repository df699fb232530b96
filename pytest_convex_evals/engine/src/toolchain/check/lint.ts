/** Lint rules that catch bugs, not style; comments and configs of a submission cannot switch them off. */
import { join } from "node:path";
import type { Linter } from "eslint";
import ts from "typescript";

import type { Finding } from "./method.js";
import { suiteConfig, UnusableConfig } from "./suite.js";

const BUGS: Linter.RulesRecord = {
  "@typescript-eslint/await-thenable": "error",
  "@typescript-eslint/no-array-delete": "error",
  "@typescript-eslint/no-explicit-any": "error",
  "@typescript-eslint/no-floating-promises": "error",
  "@typescript-eslint/no-for-in-array": "error",
  "@typescript-eslint/no-implied-eval": "error",
  "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
  "@typescript-eslint/no-misused-spread": "error",
  "@typescript-eslint/no-unsafe-argument": "error",
  "@typescript-eslint/no-unsafe-assignment": "error",
  "@typescript-eslint/no-unsafe-call": "error",
  "@typescript-eslint/no-unsafe-function-type": "error",
  "@typescript-eslint/no-unsafe-member-access": "error",
  "@typescript-eslint/no-unsafe-return": "error",
  "@typescript-eslint/only-throw-error": "error",
  "for-direction": "error",
  "getter-return": "error",
  "no-async-promise-executor": "error",
  "no-class-assign": "error",
  "no-compare-neg-zero": "error",
  "no-cond-assign": "error",
  "no-constant-binary-expression": "error",
  "no-debugger": "error",
  "no-dupe-else-if": "error",
  "no-duplicate-case": "error",
  "no-loss-of-precision": "error",
  "no-self-assign": "error",
  "no-sparse-arrays": "error",
  "no-unsafe-finally": "error",
  "no-unsafe-optional-chaining": "error",
  "use-isnan": "error",
  "valid-typeof": "error",
};

/**
 * Off where a component's functions are called: the generated types of those without return validators are `any`, which is
 * no mistake of the caller.
 */
const TYPED_BY_COMPONENTS: Linter.RulesRecord = {
  "@typescript-eslint/no-unsafe-argument": "off",
  "@typescript-eslint/no-unsafe-assignment": "off",
  "@typescript-eslint/no-unsafe-call": "off",
  "@typescript-eslint/no-unsafe-member-access": "off",
  "@typescript-eslint/no-unsafe-return": "off",
};

const REACT: Linter.RulesRecord = { "react-hooks/rules-of-hooks": "error" };

/** Our rules ask types, not scopes, for what the platform brings; the scope of a file need not list a thousand names. */
const WITHOUT_LIBRARY = { lib: [] };

/** The file imports `components` of the generated API, in a project that has some. */
function callsComponents(program: ts.Program, file: ts.SourceFile | undefined): boolean {
  if (!program.getRootFileNames().some((name) => /\/convex\.config\.[jt]s$/.test(name))) return false;
  return (file?.statements ?? []).some(
    (statement) =>
      ts.isImportDeclaration(statement) &&
      ts.isStringLiteral(statement.moduleSpecifier) &&
      /_generated\/api(\.js)?$/.test(statement.moduleSpecifier.text) &&
      statement.importClause?.namedBindings !== undefined &&
      ts.isNamedImports(statement.importClause.namedBindings) &&
      statement.importClause.namedBindings.elements.some((element) => (element.propertyName ?? element.name).text === "components"),
  );
}

/** ESLint is large, and many submissions never get as far as linting. */
async function load() {
  const [eslint, hooks, typescript] = await Promise.all([
    import("eslint"),
    import("eslint-plugin-react-hooks"),
    import("typescript-eslint"),
  ]);
  return { Linter: eslint.Linter, reactHooks: hooks.default, tseslint: typescript.default };
}

let loaded: ReturnType<typeof load> | undefined;

/** What a config of a suite may not decide: where types come from, and that comments count. */
function answeredBy(program: ts.Program, { files, languageOptions, linterOptions }: Linter.Config): Linter.Config[] {
  const parserOptions = { ...(languageOptions?.["parserOptions"] as object | undefined), programs: [program], project: null, projectService: false };
  return [{ ...(files === undefined ? {} : { files }), languageOptions: { ...languageOptions, parserOptions } }, { ...(linterOptions === undefined ? {} : { linterOptions }) }];
}

function verified(linter: Linter, text: string, list: Linter.Config[], filename: string, theirs: string | undefined): Linter.LintMessage[] {
  try {
    return linter.verify(text, list, { filename });
  } catch (error) {
    if (theirs === undefined) throw error;
    throw new UnusableConfig(`${theirs} cannot be used: ${(error as Error).message}`);
  }
}

/** Part of a project → path of the suite's config for it. */
export type SuiteConfigs = Readonly<Record<string, string>>;

/** Complaints about one file of a program; `name` is its path in the project. */
export async function lintFile(program: ts.Program, root: string, name: string, text: string, configs: SuiteConfigs = {}): Promise<Finding[]> {
  const { Linter, reactHooks, tseslint } = await (loaded ??= load());
  const client = name.startsWith("src/");
  const theirs = configs[name.split("/")[0] ?? ""];
  const config: Linter.Config = {
    files: ["**/*.{ts,tsx,mts,cts}"],
    languageOptions: {
      parser: tseslint.parser as Linter.Parser,
      parserOptions: { programs: [program], ecmaFeatures: { jsx: name.endsWith("x") }, ...(theirs === undefined ? WITHOUT_LIBRARY : {}) },
    },
    plugins: {
      "@typescript-eslint": tseslint.plugin as unknown as NonNullable<Linter.Config["plugins"]>[string],
      "react-hooks": reactHooks as unknown as NonNullable<Linter.Config["plugins"]>[string],
    },
    linterOptions: { noInlineConfig: true, reportUnusedDisableDirectives: "off" },
    rules: { ...BUGS, ...(client ? REACT : {}), ...(callsComponents(program, program.getSourceFile(join(root, name))) ? TYPED_BY_COMPONENTS : {}) },
  };
  const list = theirs === undefined ? [config] : [...(await suiteConfig(theirs)), ...answeredBy(program, config)];
  const linter = new Linter({ configType: "flat", cwd: root });
  return verified(linter, text, list, join(root, name), theirs)
    .filter((message) => message.severity === 2 && !(message.fatal ?? false))
    .map((message) => ({
      file: name,
      line: message.line,
      column: message.column,
      rule: message.ruleId ?? "eslint",
      message: message.message,
    }));
}
