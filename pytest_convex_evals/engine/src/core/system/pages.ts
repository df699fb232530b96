/** Pages that system functions return. */

import { checkPageRequest, type Page, type PageRequest } from "../db/pagination.js";
import type { Doc } from "../db/tables.js";
import { isObject, makeObject, type Value, type ValueObject } from "../values/value.js";
import type { SystemCall } from "./functions.js";

export function checkedPageRequest({ args }: SystemCall): PageRequest {
  const options = args["paginationOpts"];
  const given: ValueObject = isObject(options) ? options : makeObject([]);
  const number = (name: string): number | null => (typeof given[name] === "number" ? given[name] : null);
  const cursor = (name: string): string | null => (typeof given[name] === "string" ? given[name] : null);
  const request: PageRequest = {
    cursor: cursor("cursor"),
    endCursor: cursor("endCursor"),
    numItems: number("numItems") ?? 0,
    maximumRowsRead: number("maximumRowsRead"),
    maximumBytesRead: number("maximumBytesRead"),
  };
  checkPageRequest(request);
  return request;
}

export function pageValue(page: Page, show: (doc: Doc) => Value = (doc) => doc.value): Value {
  return makeObject([
    ["page", page.docs.map(show)],
    ["isDone", page.isDone],
    ["continueCursor", page.continueCursor],
    ["splitCursor", page.splitCursor],
    ["pageStatus", page.pageStatus],
  ]);
}
