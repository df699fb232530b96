import { expect, test } from "vitest";
import { apiUrl, cronsOf } from "../../../grader";

test("every five minutes", async () => {
  const jobs = await cronsOf(apiUrl);
  expect(jobs.map(({ name, cronSpec }) => [name, cronSpec.udfPath, cronSpec.cronSchedule])).toEqual([
    ["sweep", "sweeping.js:sweep", { type: "interval", seconds: 300n }],
  ]);
});
