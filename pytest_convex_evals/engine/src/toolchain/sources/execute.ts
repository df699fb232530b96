/** Reading statements in order: both ways of a condition unless it is constant, and nothing after a return. */
import ts from "typescript";
import { assign } from "./assign.js";
import { bindPattern } from "./bind.js";
import type { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import { exported } from "./exports.js";
import type { Interpreter } from "./interpreter.js";
import { declareModuleVariable, isModuleLevel } from "./names.js";
import { sink } from "./record.js";
import { derived, truth, union, UNDEFINED, type Val } from "./values.js";

export function executeBody(it: Interpreter, body: ts.Block, env: Env, returned: Val[]): boolean {
  return all(it, body.statements, env, returned);
}

/** Gives true when nothing after these statements is ever reached. */
function all(it: Interpreter, statements: readonly ts.Statement[], env: Env, returned: Val[]): boolean {
  for (const statement of statements) if (execute(it, statement, env, returned)) return true;
  return false;
}

export function execute(it: Interpreter, node: ts.Statement, env: Env, returned: Val[] = []): boolean {
  it.step();
  if (ts.isVariableStatement(node)) return declare(it, node.declarationList, env);
  if (ts.isExpressionStatement(node)) {
    evaluate(it, node.expression, env);
    return false;
  }
  if (ts.isReturnStatement(node)) {
    returned.push(node.expression === undefined ? UNDEFINED : evaluate(it, node.expression, env));
    return true;
  }
  if (ts.isIfStatement(node)) return branch(it, node, env, returned);
  if (ts.isBlock(node)) return all(it, node.statements, env, returned);
  if (ts.isThrowStatement(node)) {
    sink(it, evaluate(it, node.expression, env), "throw");
    return true;
  }
  if (ts.isTryStatement(node)) return attempt(it, node, env, returned);
  if (ts.isForOfStatement(node) || ts.isForInStatement(node)) return each(it, node, env, returned);
  if (ts.isForStatement(node)) return counted(it, node, env, returned);
  if (ts.isWhileStatement(node) || ts.isDoStatement(node)) {
    const condition = test(it, node.expression, env);
    if (ts.isDoStatement(node) || truth(condition) !== false) execute(it, node.statement, env, returned);
    return false;
  }
  if (ts.isSwitchStatement(node)) return choose(it, node, env, returned);
  if (ts.isLabeledStatement(node)) return execute(it, node.statement, env, returned);
  if (ts.isExportAssignment(node)) {
    exported(it, env.file, "default");
    return false;
  }
  if (ts.isModuleDeclaration(node) && node.body !== undefined && ts.isModuleBlock(node.body))
    return all(it, node.body.statements, env, returned);
  return ts.isBreakOrContinueStatement(node);
}

function declare(it: Interpreter, list: ts.VariableDeclarationList, env: Env): false {
  for (const variable of list.declarations) {
    if (isModuleLevel(variable)) declareModuleVariable(it, variable);
    else
      bindPattern(
        it,
        variable.name,
        variable.initializer === undefined ? UNDEFINED : evaluate(it, variable.initializer, env),
        env,
      );
  }
  return false;
}

function test(it: Interpreter, condition: ts.Expression, env: Env): Val {
  const value = evaluate(it, condition, env);
  sink(it, value, "condition");
  return value;
}

function branch(it: Interpreter, node: ts.IfStatement, env: Env, returned: Val[]): boolean {
  const known = truth(test(it, node.expression, env));
  const thenStops = known === false ? true : execute(it, node.thenStatement, env, returned);
  if (known === true) return thenStops;
  const elseStops = node.elseStatement !== undefined && execute(it, node.elseStatement, env, returned);
  return thenStops && elseStops;
}

function attempt(it: Interpreter, node: ts.TryStatement, env: Env, returned: Val[]): boolean {
  const { value: tryStops, frame } = it.framed(() => all(it, node.tryBlock.statements, env, returned));
  let stops = tryStops;
  if (node.catchClause !== undefined) {
    const thrown = [...frame.uses]
      .slice(0, 100)
      .map((use): Val => ({ k: "result", callee: UNDEFINED, args: [], node, use }));
    const variable = node.catchClause.variableDeclaration;
    if (variable !== undefined) bindPattern(it, variable.name, derived(thrown, variable.name.getText()), env);
    stops = all(it, node.catchClause.block.statements, env, returned) && tryStops;
  }
  if (node.finallyBlock !== undefined && all(it, node.finallyBlock.statements, env, returned)) return true;
  return stops;
}

function each(it: Interpreter, node: ts.ForOfStatement | ts.ForInStatement, env: Env, returned: Val[]): false {
  const from = evaluate(it, node.expression, env);
  const known = ts.isForOfStatement(node) && from.k === "array" && from.items.length > 0;
  const item = known ? union(from.items) : derived([from]);
  if (ts.isVariableDeclarationList(node.initializer)) {
    for (const variable of node.initializer.declarations) bindPattern(it, variable.name, item, env);
  } else assign(it, node.initializer, item, env);
  if (from.k === "array" && from.items.length === 0 && !from.open) return false;
  execute(it, node.statement, env, returned);
  return false;
}

function counted(it: Interpreter, node: ts.ForStatement, env: Env, returned: Val[]): false {
  if (node.initializer !== undefined) {
    if (!ts.isVariableDeclarationList(node.initializer)) evaluate(it, node.initializer, env);
    // A counter changes, so its first value is not what the body sees.
    else
      for (const one of node.initializer.declarations)
        bindPattern(
          it,
          one.name,
          derived(one.initializer === undefined ? [] : [evaluate(it, one.initializer, env)], one.name.getText()),
          env,
        );
  }
  const condition = node.condition === undefined ? undefined : test(it, node.condition, env);
  if (condition !== undefined && truth(condition) === false) return false;
  execute(it, node.statement, env, returned);
  if (node.incrementor !== undefined) evaluate(it, node.incrementor, env);
  return false;
}

function choose(it: Interpreter, node: ts.SwitchStatement, env: Env, returned: Val[]): boolean {
  test(it, node.expression, env);
  const stops = node.caseBlock.clauses.map((clause) => {
    if (ts.isCaseClause(clause)) evaluate(it, clause.expression, env);
    return all(it, clause.statements, env, returned) && !clause.statements.some((one) => ts.isBreakStatement(one));
  });
  return node.caseBlock.clauses.some((clause) => ts.isDefaultClause(clause)) && stops.every(Boolean);
}
