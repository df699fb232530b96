/** The shape of stored values, as dashboards and the CLI show it for tables without a schema. */

import { tryDecodeId } from "../values/ids.js";
import type { Value, ValueObject } from "../values/value.js";

type TableName = (number: number) => string | null;
interface Field {
  fieldName: string;
  optional: boolean;
  shape: Shape;
}
export type Shape =
  | { type: "Never" | "Null" | "Int64" | "Boolean" | "String" | "Bytes" }
  | { type: "Float64"; float64Range: { hasSpecialValues: boolean } }
  | { type: "Id"; tableName: string }
  | { type: "Array"; shape: Shape }
  | { type: "Object"; fields: Field[] }
  | { type: "Union"; shapes: Shape[] };

export function shapeOfAll(values: Iterable<Value>, tableName: TableName): Shape {
  let shape: Shape = { type: "Never" };
  for (const value of values) shape = merge(shape, shapeOf(value, tableName));
  return shape;
}

function shapeOf(value: Value, tableName: TableName): Shape {
  if (value === null) return { type: "Null" };
  if (typeof value === "bigint") return { type: "Int64" };
  if (typeof value === "boolean") return { type: "Boolean" };
  if (typeof value === "number") return { type: "Float64", float64Range: { hasSpecialValues: !Number.isFinite(value) || Object.is(value, -0) } };
  if (typeof value === "string") return shapeOfText(value, tableName);
  if (value instanceof Uint8Array) return { type: "Bytes" };
  if (Array.isArray(value)) return { type: "Array", shape: shapeOfAll(value, tableName) };
  return { type: "Object", fields: Object.entries(value as ValueObject).map(([fieldName, item]) => ({ fieldName, optional: false, shape: shapeOf(item, tableName) })) };
}

function shapeOfText(text: string, tableName: TableName): Shape {
  const decoded = tryDecodeId(text);
  const name = decoded === null ? null : tableName(decoded.table);
  return name === null ? { type: "String" } : { type: "Id", tableName: name };
}

function merge(a: Shape, b: Shape): Shape {
  if (a.type === "Never") return b;
  if (b.type === "Never") return a;
  const members = a.type === "Union" ? a.shapes : [a];
  const others = b.type === "Union" ? b.shapes : [b];
  const merged = others.reduce(addMember, members);
  return merged.length === 1 ? (merged[0] as Shape) : { type: "Union", shapes: merged };
}

function addMember(members: Shape[], shape: Shape): Shape[] {
  const at = members.findIndex((member) => sameKind(member, shape));
  if (at === -1) return [...members, shape];
  return members.map((member, index) => (index === at ? mergeSame(member, shape) : member));
}

function sameKind(a: Shape, b: Shape): boolean {
  return a.type === b.type && (a.type !== "Id" || a.tableName === (b as typeof a).tableName);
}

function mergeSame(a: Shape, b: Shape): Shape {
  if (a.type === "Array" && b.type === "Array") return { type: "Array", shape: merge(a.shape, b.shape) };
  if (a.type === "Float64" && b.type === "Float64") {
    return { type: "Float64", float64Range: { hasSpecialValues: a.float64Range.hasSpecialValues || b.float64Range.hasSpecialValues } };
  }
  if (a.type === "Object" && b.type === "Object") return { type: "Object", fields: mergeFields(a.fields, b.fields) };
  return a;
}

function mergeFields(a: Field[], b: Field[]): Field[] {
  const others = new Map(b.map((field) => [field.fieldName, field]));
  const fields = a.map((field): Field => {
    const other = others.get(field.fieldName);
    others.delete(field.fieldName);
    if (other === undefined) return { ...field, optional: true };
    return { fieldName: field.fieldName, optional: field.optional || other.optional, shape: merge(field.shape, other.shape) };
  });
  return [...fields, ...[...others.values()].map((field) => ({ ...field, optional: true }))];
}

