/** A process that claims, runs as far as it is told, and is killed. */

import { createReport, type Report } from "./report.js";
import { Onceward } from "../src/index.js";

const { VICTIM_OPERATION = "", VICTIM_SANDBOX = "", VICTIM_GETS_AS_FAR_AS = "" } = process.env;

const run = async (make: () => Promise<Report>): Promise<Report> => {
  if (VICTIM_GETS_AS_FAR_AS === "effect") await make();
  process.stdout.write("so far\n");
  // Nothing else keeps it alive until it is killed.
  setInterval(() => undefined, 1_000);
  return new Promise<Report>(() => undefined);
};

await createReport(new Onceward(), VICTIM_SANDBOX, run)({ title: "Q3" }, { operation: VICTIM_OPERATION });
