/** The packages that pages are shown and used by. Asked for by `require`, so that each has one form everywhere. */
import type { Context } from "node:vm";

export interface Dom {
  window: Window & typeof globalThis & Record<string, unknown>;
  getInternalVMContext(): Context;
}

export interface VirtualConsole {
  on(event: string, listener: (...args: unknown[]) => void): void;
}

export type Matcher = string | RegExp;
export type Query = (value: Matcher, options?: { name?: Matcher; exact?: boolean; hidden?: boolean }) => HTMLElement[];

export interface User {
  click(element: Element): Promise<void>;
  type(element: Element, text: string): Promise<void>;
  clear(element: Element): Promise<void>;
  keyboard(text: string): Promise<void>;
  selectOptions(element: Element, option: string): Promise<void>;
}

export const { JSDOM, VirtualConsole } = require("jsdom") as {
  JSDOM: new (html: string, options: Record<string, unknown>) => Dom;
  VirtualConsole: new () => VirtualConsole;
};
export const { isInaccessible, within } = require("@testing-library/dom") as {
  isInaccessible(element: Element): boolean;
  within(element: Element): Record<string, Query>;
};
export const { computeAccessibleName } = require("dom-accessibility-api") as {
  computeAccessibleName(element: Element): string;
};
export const { default: userEvent } = require("@testing-library/user-event") as {
  default: { setup(options: Record<string, unknown>): User };
};
