/** Pages of queries: cursors, page status and the read budgets of one page. */

import { createHmac, timingSafeEqual } from "node:crypto";

import { UserError } from "../errors.js";
import { keyAfter } from "../values/order.js";
import { passesOperators, RangeScan, type Plan, type RowSource } from "./query.js";
import type { Doc } from "./tables.js";
import type { Transaction } from "./transaction.js";

const MAX_PAGE = 32_000;
const MAX_BYTES = 16 * 1024 * 1024;
const RECOMMENDED_PAGE = 6144;
const MAX_SEARCH_ROWS = 1024;
const READ_LIMIT_CODES = new Set(["TooManyDocumentsRead", "TooManyBytesRead", "TooManyReads"]);

/** A position in a query: after the row with this key, or past the end. Search positions count rows. */
type Position = { after: string } | { rows: number } | "end";

export class CursorCodec {
  constructor(private readonly secret: string) {}

  encode(position: Position, fingerprint: string): string {
    const body = Buffer.from(
      JSON.stringify([fingerprint, position === "end" ? null : "rows" in position ? position.rows : Buffer.from(position.after, "latin1").toString("base64")]),
    );
    return Buffer.concat([this.seal(body), body]).toString("base64url");
  }

  /** The fingerprint and the position in a text that is a cursor of some query. */
  open(text: string): [string, string | number | null] {
    const bytes = Buffer.from(text, "base64url");
    const body = bytes.subarray(16);
    if (bytes.length < 17 || !timingSafeEqual(bytes.subarray(0, 16), this.seal(body))) {
      throw new UserError("InvalidCursor", "Failed to parse cursor");
    }
    return JSON.parse(body.toString()) as [string, string | number | null];
  }

  decode(text: string, fingerprint: string): Position {
    const [found, position] = this.open(text);
    if (found !== fingerprint) {
      throw new UserError(
        "InvalidCursor",
        "InvalidCursor: Tried to run a query starting from a cursor, but it looks like this cursor is from a different query.",
        { isConvexSystemError: true, paginationError: "InvalidCursor" },
      );
    }
    if (position === null) return "end";
    return typeof position === "number" ? { rows: position } : { after: Buffer.from(position, "base64").toString("latin1") };
  }

  private seal(body: Buffer): Buffer {
    return createHmac("sha256", this.secret).update(body).digest().subarray(0, 16);
  }
}

export interface PageRequest {
  cursor: string | null;
  endCursor: string | null;
  numItems: number;
  maximumRowsRead: number | null;
  maximumBytesRead: number | null;
}

export interface Page {
  docs: Doc[];
  isDone: boolean;
  continueCursor: string;
  splitCursor: string | null;
  pageStatus: "SplitRecommended" | "SplitRequired" | null;
}

/** The checks made before the query is looked at. */
export function checkPageRequest(request: PageRequest): void {
  if (request.numItems === 0) throw new UserError("NoDocumentsForPagination", "Must request at least 1 document while paginating");
  if (request.numItems > MAX_PAGE) throw new UserError("PageSizeTooLarge", `Requested too many items: ${request.numItems}`);
  if (request.maximumRowsRead === 0) throw new UserError("InvalidPaginationLimit", "maximumRowsRead must be greater than 0");
  if (request.maximumBytesRead === 0) throw new UserError("InvalidPaginationLimit", "maximumBytesRead must be greater than 0");
}

export function readPage(tx: Transaction, plan: Plan, request: PageRequest, codec: CursorCodec): Page {
  const start = request.cursor === null ? null : codec.decode(request.cursor, plan.fingerprint());
  const end = request.endCursor === null ? null : codec.decode(request.endCursor, plan.fingerprint());
  const collector = new PageCollector(plan, request, end !== null);
  if (start === "end") return collector.finish(true, request.endCursor, codec, end);
  if (plan.search !== null) return collector.collectSearch(plan.search.run(tx), start, end, request, codec);
  let { low, high } = plan;
  if (start !== null && "after" in start) {
    if (plan.ascending) low = keyAfter(start.after);
    else high = start.after;
  }
  if (end !== null && end !== "end" && "after" in end) {
    if (plan.ascending) high = keyAfter(end.after);
    else low = end.after;
  }
  const scan = new RangeScan(tx, plan, low, high);
  const ranOff = collector.collect(
    () => {
      const doc = scan.next();
      return doc === null ? null : { doc, key: scan.lastKey as string };
    },
    () => scan.hasMore(),
  );
  return collector.finish(ranOff, request.endCursor, codec, end);
}

class PageCollector {
  private readonly docs: Doc[] = [];
  private readonly keys: string[] = [];
  private readonly left: number[];
  private bytes = 0;
  private scanned = 0;
  private required = false;
  /** The budgets of the page; one whose end is given has none. */
  private readonly maximumRows: number | null;
  private readonly maximumBytes: number | null;

  constructor(
    private readonly plan: Plan,
    private readonly request: PageRequest,
    private readonly bounded: boolean,
  ) {
    this.left = plan.operators.map((operator) => ("limit" in operator ? operator.limit : 0));
    this.maximumRows = bounded ? null : request.maximumRowsRead;
    this.maximumBytes = bounded ? null : request.maximumBytesRead;
  }

  /** Reads rows until the page is full or a budget is used up. Returns whether the rows ended. */
  collect(next: () => { doc: Doc; key: string } | null, hasMore: () => boolean): boolean {
    const { maximumRows: rows, maximumBytes: bytes } = this;
    while (this.bounded || this.docs.length < this.request.numItems) {
      if (((rows !== null && this.scanned >= rows) || (bytes !== null && this.bytes >= bytes)) && hasMore()) {
        this.required = true;
        return false;
      }
      let row: { doc: Doc; key: string } | null;
      try {
        row = next();
      } catch (error) {
        if (error instanceof UserError && READ_LIMIT_CODES.has(error.code) && this.scanned > 0) {
          this.required = true;
          return false;
        }
        throw error;
      }
      if (row === null) return true;
      this.scanned += 1;
      this.bytes += row.doc.size;
      this.keys.push(row.key);
      if (passesOperators(this.plan, this.left, row.doc)) this.docs.push(row.doc);
    }
    return false;
  }

  collectSearch(rows: RowSource, start: Position | null, end: Position | null, request: PageRequest, codec: CursorCodec): Page {
    const skip = start !== null && start !== "end" && "rows" in start ? start.rows : 0;
    const stop = end !== null && end !== "end" && "rows" in end ? end.rows : null;
    let at = 0;
    while (at < skip && rows.next() !== null) at += 1;
    const ranOff = this.collect(
      () => {
        if (stop !== null && at >= stop) return null;
        const doc = rows.next();
        if (doc === null) return null;
        at += 1;
        return { doc, key: "" };
      },
      () => true,
    );
    const page = this.finish(ranOff, request.endCursor, codec, end);
    if (request.endCursor === null && !ranOff) page.continueCursor = codec.encode({ rows: at }, this.plan.fingerprint());
    page.splitCursor = null;
    return page;
  }

  finish(ranOff: boolean, endCursor: string | null, codec: CursorCodec, end: Position | null): Page {
    const fingerprint = this.plan.fingerprint();
    const done = end === null ? ranOff : end === "end";
    const last = this.keys[this.keys.length - 1];
    const position: Position = ranOff || last === undefined ? "end" : { after: last };
    const middle = this.keys[Math.floor(this.keys.length / 2)];
    return {
      docs: this.docs,
      isDone: done,
      continueCursor: endCursor ?? codec.encode(position, fingerprint),
      splitCursor: this.keys.length >= 3 && middle !== undefined ? codec.encode({ after: middle }, fingerprint) : null,
      pageStatus: this.status(),
    };
  }

  private status(): Page["pageStatus"] {
    if (this.required) return "SplitRequired";
    const most = this.plan.search === null ? MAX_PAGE : MAX_SEARCH_ROWS;
    const rows = Math.min(this.maximumRows ?? most, most) * 0.75;
    const bytes = Math.min(this.maximumBytes ?? MAX_BYTES, MAX_BYTES) * 0.75;
    return this.scanned > rows || this.bytes > bytes || this.docs.length > RECOMMENDED_PAGE ? "SplitRecommended" : null;
  }
}
