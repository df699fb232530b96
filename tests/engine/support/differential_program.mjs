/** Interprets a random program with a mutation's context. Results name documents by the order of their creation. */

export async function program(ctx, ops) {
  for (const row of await ctx.db.query("rows").collect()) await ctx.db.delete(row._id);
  const ids = [];
  const results = [];
  const clean = (row) => {
    if (row === null) return null;
    const { _id, _creationTime, ...rest } = row;
    return [ids.indexOf(_id), rest];
  };
  const attempt = async (work) => {
    try {
      results.push(await work());
    } catch {
      results.push("error");
    }
  };
  const read = async ({ index, range, order, filter, end }) => {
    let query = ctx.db.query("rows").withIndex(index, (q) => range.reduce((built, [op, field, value]) => built[op](field, value), q)).order(order);
    if (filter !== null) query = query.filter((q) => q[filter[0]](q.field(filter[1]), filter[2]));
    if (end === "first") return clean(await query.first());
    if (end === "take3") return (await query.take(3)).map(clean);
    if (end === "collect") return (await query.collect()).map(clean);
    const seen = [];
    for await (const row of query) {
      seen.push(clean(row));
      if (seen.length === 2) break;
    }
    return seen;
  };
  for (const [kind, first, second] of ops) {
    await attempt(async () => {
      switch (kind) {
        case "insert":
          ids.push(await ctx.db.insert("rows", first));
          return "inserted";
        case "patch":
          await ctx.db.patch(ids[first], second);
          return "patched";
        case "replace":
          await ctx.db.replace(ids[first], second);
          return "replaced";
        case "delete":
          await ctx.db.delete(ids[first]);
          return "deleted";
        case "get":
          return clean(await ctx.db.get(ids[first]));
        case "query":
          return await read(first);
        default:
          return "nothing";
      }
    });
  }
  results.push((await ctx.db.query("rows").collect()).map(clean));
  return results;
}
