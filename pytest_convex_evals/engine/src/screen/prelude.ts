/** What browsers have and jsdom lacks, and timers that can be held; runs inside the window before submitted code. */

export interface HostParts {
  fetch: (url: string, init: unknown) => unknown;
  /** Names of what Node has for browsers; looked up when a page first asks, because some take long to load. */
  classes: readonly string[];
  classOf: (name: string) => unknown;
  said: (kind: string, text: string) => void;
}

export interface Timers {
  hold(): void;
  release(): void;
}

/** Source of a function `(host: HostParts) => Timers`. */
export const PRELUDE = `(host) => {
  "use strict";
  const LONG = 250;
  let held = false;
  const late = new Map();
  const later = window.setTimeout, forget = window.clearTimeout, every = window.setInterval;
  window.setTimeout = function setTimeout(run, delay, ...rest) {
    if (typeof run !== "function" || !(delay >= LONG)) return later(run, delay, ...rest);
    const id = later(() => {
      if (held) late.set(id, () => run(...rest));
      else run(...rest);
    }, delay);
    return id;
  };
  window.clearTimeout = function clearTimeout(id) {
    late.delete(id);
    forget(id);
  };
  window.setInterval = function setInterval(run, delay, ...rest) {
    if (typeof run !== "function" || !(delay >= LONG)) return every(run, delay, ...rest);
    return every(() => { if (!held) run(...rest); }, delay);
  };

  for (const name of host.classes) {
    const become = (value) => Object.defineProperty(window, name, { value, configurable: true, enumerable: true, writable: true });
    Object.defineProperty(window, name, {
      configurable: true,
      enumerable: true,
      get: () => become(host.classOf(name))[name],
      set: become,
    });
  }
  window.fetch = async function fetch(input, init) {
    const url = typeof input === "object" && input !== null && "url" in input ? input : new URL(String(input), location.href).href;
    return await host.fetch(url, init);
  };
  const observer = () => class {
    observe() {}
    unobserve() {}
    disconnect() {}
    takeRecords() { return []; }
  };
  for (const name of ["IntersectionObserver", "ResizeObserver", "PerformanceObserver"]) window[name] ??= observer();
  window.matchMedia ??= (media) => ({
    media, matches: false, onchange: null,
    addEventListener() {}, removeEventListener() {}, addListener() {}, removeListener() {},
    dispatchEvent() { return false; },
  });
  window.scrollTo = window.scroll = window.scrollBy = () => {};
  for (const name of ["scrollIntoView", "scrollTo", "scroll", "scrollBy"]) window.Element.prototype[name] ??= () => {};
  window.alert = (text) => host.said("alert", String(text));
  window.confirm = (text) => { host.said("confirm", String(text)); return true; };
  window.prompt = (text) => { host.said("prompt", String(text)); return null; };

  return {
    hold() { held = true; },
    release() {
      held = false;
      const due = [...late.values()];
      late.clear();
      for (const run of due) later(run, 0);
    },
  };
}`;
