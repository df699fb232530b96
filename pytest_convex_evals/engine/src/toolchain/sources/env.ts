/** Names in scope while a function body is read: one per call, linked to where the function was written. */
import type ts from "typescript";
import type { Val } from "./values.js";

export class Env {
  private readonly vars = new Map<ts.Symbol, Val>();

  constructor(
    readonly file: string,
    private readonly parent?: Env,
    private readonly ownSelf?: Val,
  ) {}

  /** What `this` is here. */
  get self(): Val | undefined {
    return this.ownSelf ?? this.parent?.self;
  }

  get(symbol: ts.Symbol): Val | undefined {
    return this.vars.get(symbol) ?? this.parent?.get(symbol);
  }

  set(symbol: ts.Symbol, value: Val): void {
    this.vars.set(symbol, value);
  }

  /** Replaces the value where the name was declared; false when it is not declared in any of these scopes. */
  update(symbol: ts.Symbol, change: (old: Val) => Val): boolean {
    const old = this.vars.get(symbol);
    if (old === undefined) return this.parent?.update(symbol, change) ?? false;
    this.vars.set(symbol, change(old));
    return true;
  }
}
