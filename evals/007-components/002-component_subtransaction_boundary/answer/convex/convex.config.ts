import { defineApp } from "convex/server";
import seating from "./seating/convex.config";

const app = defineApp();
app.use(seating);

export default app;
