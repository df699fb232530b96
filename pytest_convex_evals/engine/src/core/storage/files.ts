/** File storage: rows of `_storage` whose bytes are kept beside them, upload URLs and served URLs. */

import { createHash, createHmac, randomUUID, timingSafeEqual } from "node:crypto";

import { tableOfId } from "../db/documents.js";
import { docById, docsOf, type Doc, type Table } from "../db/tables.js";
import { docWith, type Transaction } from "../db/transaction.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { tryDecodeId } from "../values/ids.js";
import { makeObject } from "../values/value.js";
import { FILES_TABLE, FileContent } from "./content.js";

export { FILES_TABLE };
const UPLOAD_MS = 3_600_000;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export class Files {
  constructor(
    private readonly engine: Engine,
    private readonly secret: string,
  ) {}

  /** The storage operations of functions, by the name of their system call. */
  syscall(tx: Transaction, namespace: string, op: string, args: Record<string, unknown>): unknown {
    switch (op) {
      case "storageGenerateUploadUrl":
        return `${this.engine.cloudUrl}/api/storage/upload?token=${this.uploadToken(namespace)}`;
      case "storageGetUrl": {
        const doc = this.find(tx, namespace, args["storageId"], "storage.getUrl");
        return doc === null ? null : this.url(namespace, doc);
      }
      case "storageGetMetadata": {
        const doc = this.find(tx, namespace, args["storageId"], "storage.getMetadata");
        if (doc === null) return null;
        const sha256 = Buffer.from(doc.field("sha256") as string, "base64").toString("hex");
        return { storageId: fileOf(doc).uuid, sha256, size: doc.field("size"), contentType: doc.field("contentType") ?? null };
      }
      case "storageDelete": {
        const doc = this.find(tx, namespace, args["storageId"], "storage.delete");
        if (doc === null) throw new UserError("FileNotFound", `storage id ${String(args["storageId"])} not found`);
        tx.write(namespace, FILES_TABLE, doc, null);
        return null;
      }
      case "storageStore": {
        const bytes = Buffer.from(String(args["blob"]), "base64");
        const type = args["contentType"];
        return this.store(tx, namespace, bytes, typeof type === "string" && type !== "" ? type : null, checksum(args["sha256"])).id;
      }
      case "storageGet": {
        const doc = this.find(tx, namespace, args["storageId"], "storage.get");
        return doc === null ? null : { blob: fileOf(doc).bytes.toString("base64"), contentType: doc.field("contentType") ?? null };
      }
      default:
        throw new UserError("UnknownOperation", `Unknown async operation 1.0/${op}`);
    }
  }

  store(tx: Transaction, namespace: string, bytes: Buffer, contentType: string | null, expected: Buffer | null): Doc {
    const digest = createHash("sha256").update(bytes).digest();
    if (expected !== null && !digest.equals(expected)) {
      throw new UserError("Sha256Mismatch", `Sha256 mismatch: expected ${expected.toString("base64")}, got ${digest.toString("base64")}`);
    }
    const table = tx.ensureTable(namespace, FILES_TABLE);
    const fields = makeObject([
      ["sha256", digest.toString("base64")],
      ["size", bytes.length],
      ["contentType", contentType],
    ]);
    const doc = tx.newDoc(table, fields, FileContent.of(randomUUID(), bytes));
    tx.write(namespace, FILES_TABLE, null, doc);
    return doc;
  }

  /** A file that was exported, under its old id; its URL stays the same where it can. */
  restore(tx: Transaction, file: { namespace: string; id: string; creationTime: number | null; uuid: string | null; contentType: string | null; bytes: Buffer }): void {
    const { namespace, id, bytes } = file;
    const table = tx.ensureTable(namespace, FILES_TABLE);
    if (tryDecodeId(id)?.table !== table.number) throw new UserError("InvalidStorageId", `${id} is not the id of a stored file`);
    if (docById(tx.table(namespace, FILES_TABLE) as Table, id) !== undefined) throw new UserError("DuplicateId", `A stored file with the id ${id} already exists`);
    const fields = makeObject([
      ["sha256", createHash("sha256").update(bytes).digest("base64")],
      ["size", bytes.length],
      ["contentType", file.contentType],
    ]);
    const hidden = FileContent.of(file.uuid !== null && UUID.test(file.uuid) ? file.uuid : randomUUID(), bytes);
    tx.write(namespace, FILES_TABLE, null, docWith(id, file.creationTime ?? tx.nextCreationTime(), fields, hidden));
  }

  /** A file by document id or by the uuid of its URL. */
  private find(tx: Transaction, namespace: string, id: unknown, method: string): Doc | null {
    const text = String(id);
    if (UUID.test(text)) {
      const table = tx.table(namespace, FILES_TABLE);
      for (const doc of table === undefined ? [] : docsOf(table)) {
        if (fileOf(doc).uuid === text) return tx.get(namespace, FILES_TABLE, doc.id);
      }
      return null;
    }
    let table: string | null;
    try {
      table = tableOfId(tx, namespace, text);
    } catch (error) {
      if (error instanceof UserError) throw new UserError("InvalidStorageId", `Invalid argument \`storageId\` for \`${method}\`: ${error.message}`);
      throw error;
    }
    if (table !== FILES_TABLE) {
      throw new UserError("InvalidStorageId", `Invalid storage ID. Expected an ID of "_storage", got ID from ${table === null ? "an unknown table" : `table "${table}"`}.`);
    }
    return tx.get(namespace, FILES_TABLE, text);
  }

  url(namespace: string, doc: Doc): string {
    const component = namespace === "" ? "" : `?component=${this.engine.componentId(namespace)}`;
    return `${this.engine.cloudUrl}/api/storage/${fileOf(doc).uuid}${component}`;
  }

  /** Looks a served file up in all components. */
  byUuid(uuid: string): Doc | null {
    for (const table of this.engine.db.snapshot.tables.values()) {
      if (table.name !== FILES_TABLE) continue;
      for (const doc of docsOf(table)) if (fileOf(doc).uuid === uuid) return doc;
    }
    return null;
  }

  static isUuid(text: string): boolean {
    return UUID.test(text);
  }

  private uploadToken(namespace: string): string {
    const body = Buffer.from(JSON.stringify([namespace, Math.floor(this.engine.clock.nowMs()) + UPLOAD_MS]));
    return Buffer.concat([this.sign(body), body]).toString("base64url");
  }

  /** The component an upload token is for. */
  checkUploadToken(token: string): string {
    const bytes = Buffer.from(token, "base64url");
    const body = bytes.subarray(16);
    if (bytes.length < 17 || !timingSafeEqual(bytes.subarray(0, 16), this.sign(body))) {
      throw new UserError("StorageTokenInvalid", "Storage upload URL token is invalid", undefined, 401);
    }
    const [namespace, expires] = JSON.parse(body.toString()) as [string, number];
    if (this.engine.clock.nowMs() > expires) throw new UserError("StorageTokenExpired", "Storage upload URL token has expired", undefined, 401);
    return namespace;
  }

  private sign(body: Buffer): Buffer {
    return createHmac("sha256", this.secret).update("upload").update(body).digest().subarray(0, 16);
  }
}

export function fileOf(doc: Doc): FileContent {
  return doc.hidden as FileContent;
}

/** A sha256 given as hex or base64. */
function checksum(given: unknown): Buffer | null {
  if (typeof given !== "string" || given === "") return null;
  return /^[0-9a-f]{64}$/i.test(given) ? Buffer.from(given, "hex") : Buffer.from(given, "base64");
}
