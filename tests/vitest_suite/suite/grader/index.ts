import { ConvexClient, ConvexHttpClient } from "convex/browser";
import { makeFunctionReference } from "convex/server";

/** The public default of the development instance. */
export const ADMIN_KEY =
  "0135d8598650f8f5cb0f30c34ec2e2bb62793bc28717c8eb6fb577996d50be5f4281b59181095065c5d0f86a2c31ddbe9b597ec62b47ded69782cd";

export const apiUrl = `http://localhost:${process.env.CONVEX_PORT}`;
export const siteUrl = `http://localhost:${process.env.CONVEX_SITE_PORT}`;
export const answerUrl = process.env.CONVEX_ANSWER_PORT === undefined ? null : `http://localhost:${process.env.CONVEX_ANSWER_PORT}`;

export const client = new ConvexHttpClient(apiUrl);

type Admin = { setAdminAuth(key: string, identity?: Record<string, unknown>): void };

export function asAdmin(url: string = apiUrl, identity?: Record<string, unknown>): ConvexClient {
  const admin = new ConvexClient(url);
  (admin as unknown as { client: Admin }).client.setAdminAuth(ADMIN_KEY, identity);
  return admin;
}

const system = (name: string) => makeFunctionReference<"query">(`_system/${name}`) as never;
const systemMutation = (name: string) => makeFunctionReference<"mutation">(`_system/${name}`) as never;

async function ask<T>(url: string, name: string, args: Record<string, unknown>): Promise<T> {
  const admin = asAdmin(url);
  try {
    return (await admin.query(system(name), args as never)) as T;
  } finally {
    await admin.close();
  }
}

export async function listTable(table: string): Promise<Record<string, unknown>[]> {
  return (await ask<Record<string, unknown>[]>(apiUrl, "frontend/listTableScan", { table, limit: 100 })).reverse();
}

export async function addDocuments(table: string, documents: Record<string, unknown>[]): Promise<void> {
  const admin = asAdmin();
  try {
    await admin.mutation(systemMutation("frontend/addDocument"), { table, documents } as never);
  } finally {
    await admin.close();
  }
}

export async function clearTable(tableName: string): Promise<void> {
  const admin = asAdmin();
  try {
    await admin.mutation(systemMutation("frontend/clearTablePage"), { tableName, cursor: null } as never);
  } finally {
    await admin.close();
  }
}

export async function schemaOf(url: string): Promise<unknown> {
  const { active } = await ask<{ active?: string }>(url, "frontend/getSchemas", {});
  return active === undefined ? null : JSON.parse(active);
}

/** The function spec without what a task need not say. */
export async function specOf(url: string): Promise<unknown[]> {
  const spec = await ask<Record<string, unknown>[]>(url, "cli/modules:apiSpec", {});
  return spec.map(({ returns: _, ...rest }) => rest);
}

export async function cronsOf(url: string): Promise<{ name: string; cronSpec: { udfPath: string; cronSchedule: unknown } }[]> {
  return ask(url, "frontend/listCronJobs", {});
}

/** Until `look` finds something, or the time is over. */
export async function pollUntil<T>(look: () => Promise<T | null>, milliseconds = 60_000): Promise<T> {
  const end = Date.now() + milliseconds;
  for (;;) {
    const found = await look();
    if (found !== null) return found;
    if (Date.now() > end) throw new Error(`nothing was found within ${milliseconds} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
