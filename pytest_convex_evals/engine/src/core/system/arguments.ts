/** Declarations of what system functions take. */

import { parseValidator, type Validator } from "../validators/validator.js";
import type { Json } from "../values/value.js";

/** The JSON of a validator; `optional` stands beside it in the object that holds it. */
interface Declared {
  fieldType: Json;
  optional: boolean;
}

const required = (fieldType: Json): Declared => ({ fieldType, optional: false });
export const optional = ({ fieldType }: Declared): Declared => ({ fieldType, optional: true });
export const string = required({ type: "string" });
export const number = required({ type: "number" });
export const any = required({ type: "any" });
const nothing = required({ type: "null" });
const literal = (value: string): Declared => required({ type: "literal", value });
const union = (...members: Declared[]): Declared => required({ type: "union", value: members.map((member) => member.fieldType) });
export const listOf = (item: Declared): Declared => required({ type: "array", value: item.fieldType });
export const object = (fields: Record<string, Declared>): Declared => required({ type: "object", value: fields as unknown as Json });
export const orNull = (item: Declared): Declared => union(item, nothing);
export const order = union(literal("asc"), literal("desc"));
export const pagination = object({
  numItems: number,
  cursor: orNull(string),
  endCursor: optional(orNull(string)),
  id: optional(number),
  maximumRowsRead: optional(number),
  maximumBytesRead: optional(number),
});

/** The arguments of one function; each takes the component it is about. */
export function takes(fields: Record<string, Declared>): Validator {
  return parseValidator(object({ ...fields, componentId: optional(orNull(string)) }).fieldType);
}
