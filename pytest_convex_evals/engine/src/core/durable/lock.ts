/**
 * One process per data folder, by a lock of the operating system that ends with its holder, however that ends.
 *
 * Node has no call for file locks; its SQLite takes one on a file when a transaction excludes all others.
 */

import { DatabaseSync } from "node:sqlite";

const BUSY = 5;

/** Holds the file until the process ends. False when another process holds it. */
export function takeLock(path: string): boolean {
  const holder = new DatabaseSync(path);
  try {
    holder.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    holder.close();
    if ((error as { errcode?: unknown }).errcode === BUSY) return false;
    throw error;
  }
  held.add(holder);
  return true;
}

/** Kept from being collected, which would close them. */
const held = new Set<DatabaseSync>();
