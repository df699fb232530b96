import { defineApp } from "convex/server";
import scoresAggregate from "@convex-dev/aggregate/convex.config";

const application = defineApp();
application.use(scoresAggregate, { name: "scoresByPoints" });
export { application as default };
