import actionRetrier from "@convex-dev/action-retrier/convex.config.js";
import crons from "@convex-dev/crons/convex.config.js";
import persistentTextStreaming from "@convex-dev/persistent-text-streaming/convex.config.js";
import workflow from "@convex-dev/workflow/convex.config.js";
import { defineApp } from "convex/server";

const app = defineApp();
app.use(actionRetrier);
app.use(crons);
app.use(persistentTextStreaming);
app.use(workflow);
export default app;
