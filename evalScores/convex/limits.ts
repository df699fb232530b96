// Limits that keep every document and transaction far below those of the platform.

const KIB = 1024;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Characters of a failure text. */
export const MAX_TEXT = 16_000;
/** Characters of a name, slug, key or path. */
export const MAX_NAME = 500;
/** Bytes of an archive. */
export const MAX_ASSET_BYTES = 5 * KIB * KIB;
/** Evals of a suite, and parts of its fingerprint. */
export const MAX_SUITE = 4_000;
/** Cells of a run: evals times repeats. */
export const MAX_CELLS = 20_000;
/** Checks of one cell. */
export const MAX_CHECKS = 1_000;
/** Characters of all texts of one cell: what is longer is cut, so that a verdict is never lost for its explanation. */
export const MAX_CELL_TEXT = 2_000_000;
/** Bytes of one document. */
export const MAX_DOCUMENT = 900 * KIB;
/** Rows that one transaction of a cascade deletes at most, */
export const DELETE_BATCH = 400;
/** and bytes after which it stops: rows are long where failures are. */
export const BATCH_BYTES = 3 * KIB * KIB;
/** Rows that are read at once where only their size says when to stop; the largest have 100 KB. */
export const READ_CHUNK = 20;
/** Cells that one transaction ends. */
export const CELL_BATCH = 200;
/** Complete runs that make a score. */
export const RANKED_RUNS = 10;
/** Rows of one leaderboard. */
export const MAX_ROWS = 500;
/** Scores that one transaction marks as those of a version. */
export const MINT_BATCH = 500;
/** A run without a sign of life for this long has been abandoned. */
export const HEARTBEAT_LIMIT = 3 * HOUR;
/** How long a file may wait to be referred to. */
export const ORPHAN_AGE = 24 * HOUR;
/** How exact the last use of a token is. */
export const LAST_USE_RESOLUTION = HOUR;
