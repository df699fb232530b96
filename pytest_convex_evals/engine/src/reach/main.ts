/** Loaded before a program that is not ours (`--import`): gives it the way out of its cage. Told by `CAGE_RELAY=folder:port,port`. */

import { Reach } from "../shared/reach.js";

const [folder, ports] = (process.env["CAGE_RELAY"] ?? "").split(":");
delete process.env["CAGE_RELAY"];
if (folder !== undefined && ports !== undefined) await new Reach(folder).serve(ports.split(",").map(Number));
