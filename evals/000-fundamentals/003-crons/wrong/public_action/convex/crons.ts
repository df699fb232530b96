import { cronJobs } from "convex/server";
import { api } from "./_generated/api";

// Lima is UTC-5 all year; schedules are in UTC.
const crons = cronJobs();

crons.interval("auction lots", { minutes: 90 }, api.displays.refresh, { display: "auction", days: 0 });
crons.interval("landing board", { hours: 7 }, api.displays.refresh, { display: "landings", days: 1 });
crons.cron("gate lights", "*/20 9-11 * * *", api.displays.refresh, { display: "gates", days: 1 });
crons.cron("evening prices", "15 1 * * 2-6", api.displays.refresh, { display: "prices", days: 5 });
crons.cron("quarter totals", "5 5 1 1,4,7,10 *", api.displays.refresh, { display: "totals", days: 92 });

export default crons;
