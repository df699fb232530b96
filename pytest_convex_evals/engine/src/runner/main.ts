/** Entry point of the runner: untrusted code runs here, and everything it wants it asks the core for. */

import { ActionRunner } from "./actions.js";
import { runTransactional } from "./udf.js";

const kind = process.argv[2];
if (kind === "udf") runTransactional();
else if (kind === "action" || kind === "node") new ActionRunner(kind).run();
else process.exit(2);
