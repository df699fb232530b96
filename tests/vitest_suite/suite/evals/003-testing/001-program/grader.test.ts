import { existsSync } from "node:fs";
import { join } from "node:path";
import * as ts from "typescript";
import { expect, test } from "vitest";

const project = process.env.MODEL_OUTPUT_DIR as string;

function program(): ts.Program {
  const path = join(project, "convex", "tsconfig.json");
  expect(existsSync(path)).toBe(true);
  const { config, error } = ts.readConfigFile(path, ts.sys.readFile);
  expect(error).toBeUndefined();
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, join(project, "convex"));
  return ts.createProgram(fileNames, options);
}

test("the union is told apart by its kind", () => {
  const built = program();
  const file = built.getSourceFile(join(project, "convex", "shapes.ts")) as ts.SourceFile;
  expect(built.getSemanticDiagnostics(file).map((one) => ts.flattenDiagnosticMessageText(one.messageText, " "))).toEqual([]);
  const checker = built.getTypeChecker();
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(file) as ts.Symbol);
  const shape = checker.getDeclaredTypeOfSymbol(exported.find((one) => one.name === "Shape") as ts.Symbol);
  expect(shape.isUnion() && shape.types.map((type) => checker.typeToString(type))).toEqual([
    '{ kind: "circle"; radius: number; }',
    '{ kind: "square"; side: number; }',
  ]);
}, 30_000);
