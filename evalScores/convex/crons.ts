import { cronJobs } from "convex/server";
import { internal } from "./_generated/api";

const crons = cronJobs();
crons.interval("abandon silent runs", { minutes: 15 }, internal.runs.abandonSilentRuns, {});
crons.interval("sweep files without an owner", { hours: 6 }, internal.assets.sweepFiles, {});
export default crons;
