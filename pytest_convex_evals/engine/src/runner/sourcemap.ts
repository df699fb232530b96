/**
 * Where a place in a bundle comes from.
 *
 * A map of a bundle has tens of thousands of entries, and an error asks for a handful. So the text is read through once for what stands
 * at the beginning of each line, and a line is read when a place in it is asked for; nothing is built of entries.
 */

export interface Origin {
  source: string;
  /** Both count from zero. */
  line: number;
  column: number;
}

const DIGITS = new Int8Array(128).fill(-1);
[..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].forEach((digit, value) => {
  DIGITS[digit.charCodeAt(0)] = value;
});
const COMMA = 44;
const SEMICOLON = 59;
const MORE = 32;
const FIELDS = 4;

/** The latest entry: column in the bundle, then source, line and column of the origin; each entry says how it differs from the one before. */
interface Reader {
  index: number;
  isFound: boolean;
  at: [number, number, number, number];
}

export class BundleMap {
  /** What a reader is at the beginning of each line. */
  private readonly lines: Reader[] = [];

  private constructor(
    private readonly mappings: string,
    private readonly sources: readonly unknown[],
  ) {
    const reader: Reader = { index: 0, isFound: false, at: [0, 0, 0, 0] };
    do {
      reader.at[0] = 0;
      this.lines.push({ ...reader, at: [...reader.at] });
      this.read(reader, Infinity);
    } while (this.mappings.charCodeAt(reader.index++) === SEMICOLON);
  }

  /** Null for a text that is no source map. */
  static parse(text: string): BundleMap | null {
    try {
      const { mappings, sources } = JSON.parse(text) as { mappings?: unknown; sources?: unknown };
      return typeof mappings === "string" && Array.isArray(sources) ? new BundleMap(mappings, sources) : null;
    } catch {
      return null;
    }
  }

  /** The origin of the last entry at or before a place; null when there is none. Line and column count from zero. */
  find(line: number, column: number): Origin | null {
    const last = this.lines.length - 1;
    const start = this.lines[Math.min(line, last)] as Reader;
    const reader: Reader = { ...start, at: [...start.at] };
    this.read(reader, line > last ? Infinity : column);
    const source = this.sources[reader.at[1]];
    return reader.isFound && typeof source === "string" ? { source, line: reader.at[2], column: reader.at[3] } : null;
  }

  /** Reads entries up to a column, at most to the end of the line. */
  private read(reader: Reader, column: number): void {
    const { mappings } = this;
    const next: Reader["at"] = [...reader.at];
    let field = 0;
    let value = 0;
    let shift = 0;
    for (; ; reader.index++) {
      const code = reader.index < mappings.length ? mappings.charCodeAt(reader.index) : SEMICOLON;
      if (code === COMMA || code === SEMICOLON) {
        if (field > 0 && next[0] > column) return;
        if (field >= FIELDS) {
          for (let part = 0; part < FIELDS; part++) reader.at[part] = next[part] as number;
          reader.isFound = true;
        }
        if (code === SEMICOLON) return;
        field = 0;
        continue;
      }
      const digit = DIGITS[code] ?? -1;
      if (digit < 0) throw new Error("not a source map");
      value += (digit & (MORE - 1)) << shift;
      shift += 5;
      if ((digit & MORE) !== 0) continue;
      if (field < FIELDS) next[field] = (next[field] as number) + (value & 1 ? -(value >>> 1) : value >>> 1);
      field += 1;
      value = 0;
      shift = 0;
    }
  }
}
