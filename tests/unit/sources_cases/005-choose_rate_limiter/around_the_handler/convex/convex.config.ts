import * as server from "convex/server";
import component from "@convex-dev/rate-limiter/convex.config";

const app = server.defineApp();
app.use(component, { name: "commentLimits" });
export default app;
