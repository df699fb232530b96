/** Entry point of the runner: untrusted code runs here, and everything it wants it asks the core for. */

const kind = process.argv[2];

/** Only what this kind needs is loaded: every cell starts runners. */
async function run(): Promise<void> {
  if (kind === "udf") (await import("./udf.js")).runTransactional();
  else if (kind === "action" || kind === "node") new (await import("./actions.js")).ActionRunner(kind).run();
  else process.exit(2);
}

void run();
