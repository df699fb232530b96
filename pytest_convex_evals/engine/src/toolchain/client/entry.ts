/** The program around a submitted component: what it imports comes from the submission's own packages. */

/** Global names that the screen and the scripts of a page share. */
export const ENVIRONMENT = "__screenEnvironment";
export const MOUNT = "__screenMount";
export const PACKAGES = "__screenPackages";

/** Puts a function on the window that mounts the component in a container, below a Convex provider. */
export function entrySource(entry: string, exportName: string): string {
  return `
import * as component from ${JSON.stringify(`./${entry}`)};
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { flushSync } from "react-dom";
import { ConvexProvider, ConvexReactClient } from "convex/react";

globalThis.${MOUNT} = (container, url, props, thrown) => {
  const chosen = component[${JSON.stringify(exportName)}];
  const kind = typeof chosen;
  if (kind !== "function" && !(kind === "object" && chosen !== null && "$$typeof" in chosen)) {
    throw new TypeError(${JSON.stringify(`${entry} has no component as its export ${JSON.stringify(exportName)}`)});
  }
  const client = new ConvexReactClient(url, { unsavedChangesWarning: false });
  const root = createRoot(container, { onUncaughtError: thrown });
  flushSync(() => root.render(createElement(ConvexProvider, { client }, createElement(chosen, props))));
  return () => {
    root.unmount();
    void client.close();
  };
};
`;
}
