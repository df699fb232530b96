/**
 * What the packages of a screen take from Node while they are loaded and a snapshot cannot hold, by things that take the real one
 * when it is used. esbuild puts these exports in the place of the globals of the same names.
 */

interface Globals {
  TextDecoder: new (...args: unknown[]) => { decode(...args: unknown[]): string };
  SharedArrayBuffer: { prototype: object };
}

const real = <K extends keyof Globals>(name: K): Globals[K] => (globalThis as unknown as Globals)[name];

class LateDecoder {
  private readonly args: unknown[];
  private decoder: InstanceType<Globals["TextDecoder"]> | undefined;

  constructor(...args: unknown[]) {
    this.args = args;
  }

  decode(...args: unknown[]): string {
    this.decoder ??= new (real("TextDecoder"))(...this.args);
    return this.decoder.decode(...args);
  }
}

class SharedBuffers {
  constructor(...args: unknown[]) {
    return new (real("SharedArrayBuffer") as unknown as typeof SharedBuffers)(...args);
  }

  static [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof (real("SharedArrayBuffer") as unknown as new () => object);
  }

  get byteLength(): unknown {
    return Reflect.get(real("SharedArrayBuffer").prototype, "byteLength", this);
  }

  get growable(): unknown {
    return Reflect.get(real("SharedArrayBuffer").prototype, "growable", this);
  }
}

export { LateDecoder as TextDecoder, SharedBuffers as SharedArrayBuffer };
