import { cronJobs } from "convex/server";
import { internal } from "./_generated/api";

const crons = cronJobs();

crons.interval("sweep", { minutes: 5 }, internal.sweeping.sweep, {});

export default crons;
