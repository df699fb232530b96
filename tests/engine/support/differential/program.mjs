/**
 * Interprets a program with the context of a query or mutation. Results name documents by the order of their creation.
 *
 * A program has two tables: 0 takes everything, 1 has a validator. `state` is `{tables, ids}`, `call` has the references of the
 * functions `page` and `inner`, which run in a sub-transaction.
 */

/** Stands for undefined, which cannot travel. */
export const UNDEFINED = "\u0000undefined";

const given = (value) => (value === UNDEFINED ? undefined : value);

export function build(ctx, table, { index, range, order, filter }) {
  let query = ctx.db.query(table);
  if (index !== null) query = query.withIndex(index, (q) => range.reduce((built, [op, field, value]) => built[op](field, given(value)), q));
  if (order !== null) query = query.order(order);
  return filter === null ? query : query.filter((q) => expression(q, filter));
}

function expression(q, [op, ...operands]) {
  if (op === "field") return q.field(operands[0]);
  if (op === "value") return given(operands[0]);
  return q[op](...operands.map((operand) => expression(q, operand)));
}

export async function program(ctx, call, state, ops) {
  const { tables, ids } = state;
  const clean = (row) => {
    if (row === null) return null;
    const { _id, _creationTime, ...rest } = row;
    return [ids.indexOf(_id), rest];
  };
  const pages = async (table, spec, numItems) => {
    const rows = [];
    const done = [];
    for (let cursor = null, count = 0; count < 40; count++) {
      const page = await ctx.runQuery(call.page, { table: tables[table], spec, numItems, cursor });
      rows.push(...page.page.map(clean));
      done.push(page.isDone);
      if (page.isDone) return { rows, done };
      cursor = page.continueCursor;
    }
    throw new Error("pages without end");
  };
  const read = async (table, spec, end) => {
    const query = build(ctx, tables[table], spec);
    if (end === "first" || end === "unique") return clean(await query[end]());
    if (end === "collect") return (await query.collect()).map(clean);
    if (end.startsWith("take")) return (await query.take(Number(end.slice(4)))).map(clean);
    const seen = [];
    for await (const row of query) {
      seen.push(clean(row));
      if (seen.length === 2) break;
    }
    return seen;
  };
  const fields = (value) => Object.fromEntries(Object.entries(value).map(([name, item]) => [name, given(item)]));
  const choose = (at, loose, strict) => (ctx.db.normalizeId(tables[0], ids[at]) === null ? strict : loose);
  const run = {
    insert: async (table, value) => {
      ids.push(await ctx.db.insert(tables[table], fields(value)));
      return "inserted";
    },
    patch: async (at, loose, strict) => (await ctx.db.patch(ids[at], fields(choose(at, loose, strict))), "patched"),
    replace: async (at, loose, strict) => (await ctx.db.replace(ids[at], fields(choose(at, loose, strict))), "replaced"),
    delete: async (at) => (await ctx.db.delete(ids[at]), "deleted"),
    get: async (at) => clean(await ctx.db.get(ids[at])),
    getText: async (text) => clean(await ctx.db.get(text)),
    normalize: async (table, at) => ctx.db.normalizeId(tables[table], ids[at]) === ids[at],
    query: read,
    pages: async (table, spec, numItems) => (await pages(table, spec, numItems)).rows,
    pageEnds: async (table, spec, numItems) => (await pages(table, spec, numItems)).done,
    sweep: async (spec, change) => {
      const seen = [];
      for await (const row of build(ctx, tables[0], spec)) {
        seen.push(clean(row));
        if (change === "copy") ids.push(await ctx.db.insert(tables[0], { n: row.n, s: row.s, a: row.a }));
        else if (change === "move") await ctx.db.patch(row._id, { n: row.n + 1, a: row.n, s: `${row.s}b` });
        else await ctx.db.delete(row._id);
      }
      return seen;
    },
    nested: async (inner, fails) => {
      const answer = await ctx.runMutation(call.inner, { tables, ids: [...ids], ops: inner, fails });
      ids.push(...answer.ids.slice(ids.length));
      return answer.results;
    },
  };
  const results = [];
  for (const [kind, ...operands] of ops) {
    try {
      results.push(await run[kind](...operands));
    } catch {
      results.push("error");
    }
  }
  return results;
}

/** Handlers of the functions that both sides register. */
export function handlers(call) {
  const batch = async (ctx, { programs }) => {
    const answers = [];
    for (const { tables, ids, ops, first } of programs) {
      for (const table of first ? tables : []) for (const row of await ctx.db.query(table).collect()) await ctx.db.delete(row._id);
      const results = await program(ctx, call, { tables, ids }, ops);
      answers.push({ ids, results });
    }
    return answers;
  };
  return {
    write: batch,
    read: batch,
    page: (ctx, { table, spec, numItems, cursor }) => build(ctx, table, spec).paginate({ numItems, cursor }),
    inner: async (ctx, { tables, ids, ops, fails }) => {
      const results = await program(ctx, call, { tables, ids }, ops);
      if (fails) throw new Error("rolled back");
      return { ids, results };
    },
  };
}
