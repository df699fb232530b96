/** A warm vitest for each suite: the configuration, the compiled sources and the found packages stay from grader to grader. */

import { realpathSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { createVitest, type Vitest } from "vitest/node";

import { graderModules, type Places } from "./resolve.js";
import { described, testsOf, type Problem, type TestResult } from "./results.js";
import { BootedWorker, poolOf } from "./workers.js";

/** Projects of suites have configurations of their own, and one of them is malformed: none is read. */
const TSCONFIG = JSON.stringify({ compilerOptions: { target: "esnext", jsx: "react-jsx", useDefineForClassFields: true } });
const TOOLCHAIN = dirname(dirname(fileURLToPath(import.meta.url)));

export interface Report {
  /** The process of the grader was there to run it. */
  started: boolean;
  tests: TestResult[];
  /** What kept the grader from registering tests. */
  problems: Problem[];
  /** Errors that belong to no test. */
  unhandled: Problem[];
  /** The code that the grader wanted to exit with. */
  exited: string | null;
  /** How its process ended by itself. */
  died: string | null;
  timedOut: boolean;
  output: string;
  /** Bytes that this process uses. */
  memory: number;
}

export interface Run {
  suite: string;
  grader: string;
  /** Folder of the submission. */
  project: string;
  /** Cache folder of the suite's server. */
  cache: string;
  env: Record<string, string>;
  seconds: number;
}

function reportOn(worker: BootedWorker, timedOut: boolean): Report {
  const { exited, died, output } = worker;
  return { started: true, tests: [], problems: [], unhandled: [], exited, died, timedOut, output, memory: process.memoryUsage.rss() };
}

class SuiteServer {
  readonly places: Places;
  private next: BootedWorker | null = null;
  private vitest: Promise<Vitest> | null = null;
  /** Grader → the files of packages that it used. */
  private readonly used = new Map<string, ReadonlySet<string>>();

  constructor(
    private readonly suite: string,
    private readonly cache: string,
  ) {
    this.places = { folders: new Set([realpathSync(suite), realpathSync(TOOLCHAIN)]), packages: new Set() };
  }

  /** What a grader will load: what it loaded before, or what all others did. */
  expected(grader: string): string[] {
    const [first = new Set<string>(), ...others] = this.used.values();
    return [...(this.used.get(grader) ?? [...first].filter((file) => others.every((files) => files.has(file))))];
  }

  open(): Promise<Vitest> {
    this.vitest ??= createVitest(
      "test",
      {
        root: this.suite,
        config: false,
        watch: false,
        api: false,
        include: ["**/grader.test.ts"],
        pool: poolOf(() => this.next as BootedWorker),
        fileParallelism: false,
        reporters: [{}],
        allowOnly: true,
        update: false,
        disableConsoleIntercept: true,
        passWithNoTests: true,
      },
      {
        envDir: false,
        publicDir: false,
        cacheDir: this.cache,
        server: { watch: null, ws: false, hmr: false },
        optimizeDeps: { noDiscovery: true },
        esbuild: { tsconfigRaw: TSCONFIG },
        plugins: [graderModules(this.places)],
      },
    );
    return this.vitest;
  }

  async run({ grader, project, env, seconds }: Run, worker: BootedWorker): Promise<Report> {
    const vitest = await this.open();
    const real = realpathSync(project);
    this.places.folders.add(real);
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      worker.kill();
    }, seconds * 1000);
    try {
      await worker.ready;
      if (!worker.isAlive) return { ...reportOn(worker, timedOut), started: false };
      worker.tell({ evals: "begin", env });
      this.next = worker;
      // Sources may have changed since the last grader.
      for (const environment of Object.values(vitest.vite.environments)) environment.moduleGraph.invalidateAll();
      const [first] = vitest.projects;
      if (first === undefined) throw new Error("vitest has no project");
      this.places.packages.clear();
      const specification = first.createSpecification(grader);
      const { unhandledErrors } = await vitest.runTestSpecifications([specification]);
      if (this.places.packages.size > 0) this.used.set(grader, new Set(this.places.packages));
      const { testModule } = specification;
      return {
        ...reportOn(worker, timedOut),
        tests: testModule === undefined ? [] : testsOf(testModule),
        problems: testModule === undefined ? [] : testModule.errors().map(described),
        unhandled: unhandledErrors.map((error) => described(error as object)),
      };
    } finally {
      clearTimeout(timer);
      worker.kill();
      this.next = null;
      this.places.folders.delete(real);
      vitest.state.clearFiles(vitest.projects[0] as never, [grader]);
      vitest.state.errorsSet.clear();
    }
  }
}

export class Servers {
  private readonly suites = new Map<string, SuiteServer>();

  /** The server of a suite; it begins to start at once. */
  of(suite: string, cache: string): SuiteServer {
    let found = this.suites.get(suite);
    if (found === undefined) {
      found = new SuiteServer(suite, cache);
      this.suites.set(suite, found);
      found.open().catch(() => this.suites.delete(suite));
    }
    return found;
  }
}
