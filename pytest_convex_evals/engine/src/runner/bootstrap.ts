/**
 * The script that turns a bare context into the platform's default runtime.
 *
 * It is evaluated inside the context, so that what it defines belongs to that realm; `host` carries the few functions that reach
 * outside. Only primitives cross, except for the shared classes.
 */

export const BOOTSTRAP = String.raw`(function (host, shared) {
  "use strict";
  const define = (name, value) =>
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  for (const name of Object.keys(shared)) define(name, shared[name]);
  for (const name of host.lazyNames) {
    Object.defineProperty(globalThis, name, {
      get() {
        const value = host.lazy(name);
        define(name, value);
        return value;
      },
      set: (value) => void define(name, value),
      configurable: true,
      enumerable: false,
    });
  }
  define("self", globalThis);

  const NativeDate = Date;
  const SharedDate = new Proxy(NativeDate, {
    construct(target, args, newTarget) {
      return Reflect.construct(target, args.length === 0 ? [host.now()] : args, newTarget === SharedDate ? target : newTarget);
    },
    apply() {
      return new NativeDate(host.now()).toString();
    },
  });
  NativeDate.now = function now() {
    return host.now();
  };
  NativeDate.prototype.constructor = SharedDate;
  define("Date", SharedDate);

  // What shared classes make belongs to another realm; instanceof treats it as made by the same class.
  for (const name of Object.keys(host.foreign)) {
    const own = globalThis[name];
    const foreign = host.foreign[name];
    const inherited = Function.prototype[Symbol.hasInstance];
    Object.defineProperty(own, Symbol.hasInstance, {
      configurable: true,
      value(candidate) {
        return inherited.call(this, candidate) || (this === own && inherited.call(foreign, candidate));
      },
    });
  }

  Math.random = function random() {
    return host.random();
  };

  define("WeakRef", class WeakRef {
    #target;
    constructor(target) {
      this.#target = target;
    }
    deref() {
      return this.#target;
    }
  });
  define("FinalizationRegistry", class FinalizationRegistry {
    register() {}
    unregister() {}
  });
  if (typeof Atomics === "object") Atomics.wait = undefined;
  for (const name of ["compile", "instantiate"]) {
    const native = WebAssembly[name];
    WebAssembly[name] = (...args) => host.pending(native(...args));
  }

  const env = new Proxy(Object.create(null), {
    get(_target, name) {
      if (typeof name !== "string") return undefined;
      const answer = host.env(name);
      if (answer.error !== undefined) throw new Error(answer.error);
      return answer.value;
    },
    has() {
      return false;
    },
    ownKeys() {
      return [];
    },
    set() {
      return true;
    },
  });
  define("process", { env });

  const log = (level) => (...args) => host.log(level, args);
  const timers = new Map();
  const elapsed = (label) => String(Math.round(host.realNow() - timers.get(label))) + "ms";
  define("console", {
    debug: log("DEBUG"),
    error: log("ERROR"),
    info: log("INFO"),
    log: log("LOG"),
    warn: log("WARN"),
    trace(...args) {
      host.logText("LOG", host.inspectAll(args) + "\n" + String(new Error().stack).split("\n").slice(2).join("\n"));
    },
    time(label = "default") {
      if (timers.has(label)) host.logText("WARN", "Timer '" + label + "' already exists");
      else timers.set(label, host.realNow());
    },
    timeLog(label = "default", ...args) {
      if (!timers.has(label)) host.logText("WARN", "Timer '" + label + "' does not exist");
      else host.logText("INFO", label + ": " + elapsed(label) + (args.length > 0 ? " " + host.inspectAll(args) : ""));
    },
    timeEnd(label = "default") {
      if (!timers.has(label)) host.logText("WARN", "Timer '" + label + "' does not exist");
      else {
        host.logText("INFO", label + ": " + elapsed(label));
        timers.delete(label);
      }
    },
  });

  const asyncCall = (op, json) =>
    new Promise((resolve, reject) => {
      host.async(op, json, resolve, (message, data) => {
        const error = new Error(message);
        if (data !== undefined) error.data = JSON.parse(data);
        reject(error);
      });
    });
  define("Convex", {
    syscall(op, json) {
      const answer = host.sync(String(op), String(json));
      if (answer.error !== undefined) throw new Error(answer.error);
      return answer.value;
    },
    asyncSyscall: (op, json) => asyncCall(String(op), String(json)),
    jsSyscall: (op, args) => host.js(op, args, asyncCall),
  });

  const cryptography = {
    subtle: host.subtle,
    randomUUID() {
      const answer = host.randomUUID();
      return answer;
    },
    getRandomValues(view) {
      if (view.byteLength > 65536) throw new DOMException("The ArrayBufferView's byte length exceeds the number of bytes of entropy available", "QuotaExceededError");
      host.fill(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
      return view;
    },
  };
  define("crypto", cryptography);
  class PerformanceEntry {
    constructor(name, entryType, startTime, duration, detail) {
      Object.assign(this, { name, entryType, startTime, duration, detail });
    }
    toJSON() {
      return { ...this };
    }
  }
  class Performance {
    #entries = [];
    get timeOrigin() {
      return host.timeOrigin();
    }
    now() {
      return host.performanceNow();
    }
    #time(given, otherwise) {
      if (given === undefined || typeof given === "number") return given ?? otherwise;
      const mark = this.#entries.findLast((entry) => entry.entryType === "mark" && entry.name === given);
      if (mark === undefined) throw new DOMException("The mark '" + given + "' does not exist.", "SyntaxError");
      return mark.startTime;
    }
    #add(entry) {
      this.#entries.push(entry);
      return entry;
    }
    mark(name, options = {}) {
      return this.#add(new PerformanceEntry(String(name), "mark", options.startTime ?? this.now(), 0, options.detail ?? null));
    }
    measure(name, from, to) {
      const { start = from, end = to, detail = null } = typeof from === "object" && from !== null ? { start: undefined, ...from } : {};
      const startTime = this.#time(start, 0);
      return this.#add(new PerformanceEntry(String(name), "measure", startTime, this.#time(end, this.now()) - startTime, detail));
    }
    getEntries() {
      return this.#entries.toSorted((a, b) => a.startTime - b.startTime);
    }
    getEntriesByType(type) {
      return this.getEntries().filter((entry) => entry.entryType === type);
    }
    getEntriesByName(name, type) {
      return this.getEntries().filter((entry) => entry.name === name && (type === undefined || entry.entryType === type));
    }
    #clear(type, name) {
      this.#entries = this.#entries.filter((entry) => entry.entryType !== type || (name !== undefined && entry.name !== name));
    }
    clearMarks(name) {
      this.#clear("mark", name);
    }
    clearMeasures(name) {
      this.#clear("measure", name);
    }
    toJSON() {
      return { timeOrigin: this.timeOrigin };
    }
  }
  define("PerformanceEntry", PerformanceEntry);
  define("Performance", Performance);
  const measured = new Performance();
  define("performance", measured);
  define("structuredClone", (value, options) => {
    if (options !== undefined) throw new Error("structuredClone with transfer not supported");
    return host.structuredClone(value);
  });

  const running = new Map();
  let counter = 0;
  if (host.actions) {
    define("fetch", (input, init) => host.fetch(input, init, asyncCall));
    const start = (repeat) => (callback, delay = 0, ...args) => {
      if (typeof callback !== "function") throw new Error("Not implemented: string timers for setTimeout.");
      const id = ++counter;
      running.set(id, true);
      const wait = () =>
        asyncCall("host/sleep", JSON.stringify({ ms: Number(delay) || 0 })).then(() => {
          if (!running.has(id)) return;
          if (!repeat) running.delete(id);
          try {
            callback(...args);
          } finally {
            if (repeat) wait();
          }
        });
      wait();
      return id;
    };
    define("setTimeout", start(false));
    define("setInterval", start(true));
    define("clearTimeout", (id) => void running.delete(id));
    define("clearInterval", (id) => void running.delete(id));
  } else {
    const refuse = (what) => new Error(host.refusal(what));
    define("fetch", () => Promise.reject(refuse("fetch()")));
    define("setTimeout", () => (Promise.reject(refuse("setTimeout")), 0));
    define("setInterval", () => (Promise.reject(refuse("setInterval")), 0));
    define("clearTimeout", () => {});
    define("clearInterval", () => {});
  }

  const reset = () => {
    timers.clear();
    measured.clearMarks();
    measured.clearMeasures();
    running.clear();
    counter = 0;
    // What RegExp.lastMatch and its kind remember.
    /(?:)/.test("");
  };
  return { makeError: (message) => new Error(message), makeTypeError: (message) => new TypeError(message), parseJson: JSON.parse, reset };
})`;
