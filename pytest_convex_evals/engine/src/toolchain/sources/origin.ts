/** Where a value comes from: the package and export, whether it is an instance of it, and the path from there. */
import { packageOf } from "./known.js";
import type { Instance, Source, Val } from "./values.js";

export interface Origin {
  source: Source;
  module: string;
  package: string;
  export: string;
  instance: boolean;
  /** The path from there: `count`, `db.query().collect`; empty for the thing itself. */
  member: string;
}

export function originOf(value: Val): Origin | undefined {
  switch (value.k) {
    case "root":
      return {
        source: value.source,
        module: value.module,
        export: value.name,
        instance: false,
        member: "",
        package: value.source === "package" ? packageOf(value.module) : "",
      };
    case "member": {
      const of = originOf(value.of);
      if (of === undefined) return undefined;
      if (of.export === "*" && of.member === "") return { ...of, export: value.name };
      return { ...of, member: of.member === "" ? value.name : `${of.member}.${value.name}` };
    }
    case "result": {
      const of = originOf(value.callee);
      return of && { ...of, member: `${of.member}()` };
    }
    case "instance": {
      const of = originOf(value.callee);
      if (of === undefined) return undefined;
      return of.member === "" && !of.instance ? { ...of, instance: true } : { ...of, member: `${of.member}()` };
    }
    case "local":
      return value.base && originOf(value.base);
    default:
      return undefined;
  }
}

/** The `new X(…)` that a value was reached through. */
export function instanceBehind(value: Val): Instance | undefined {
  for (let at: Val | undefined = value; at !== undefined;) {
    if (at.k === "instance") return at;
    if (at.k === "member") at = at.of;
    else if (at.k === "result") at = at.callee;
    else if (at.k === "local") at = at.base;
    else return undefined;
  }
  return undefined;
}

/** The Convex function that `internal.a.b` or `api.a.b` names, written `a:b`. */
export function functionReference(value: Val): string | undefined {
  if (value.k === "result" && value.args[0]?.k === "const" && typeof value.args[0].value === "string") {
    const made = originOf(value.callee);
    if (made?.module === "convex/server" && made.export === "makeFunctionReference") return value.args[0].value;
  }
  const origin = value.k === "member" ? originOf(value) : undefined;
  if (origin === undefined || origin.member.includes("(")) return undefined;
  const generated = origin.module === "_generated/api" && (origin.export === "internal" || origin.export === "api");
  if (!generated && !(origin.module === "convex/server" && origin.export === "anyApi")) return undefined;
  const words = origin.member.split(".");
  return words.length < 2 ? undefined : `${words.slice(0, -1).join("/")}:${words.at(-1)}`;
}
