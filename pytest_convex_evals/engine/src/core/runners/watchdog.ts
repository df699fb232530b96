/**
 * Ends runners whose core was killed.
 *
 * A runner ends by itself when its pipe closes, unless it is busy in an endless loop. A shell outside the core's process group
 * waits for the core's end and then kills the process groups it was told about.
 */

import { spawn, type ChildProcess } from "node:child_process";

const SCRIPT = `
pids=""
while read -r op pid; do
  case "$op" in
    add) pids="$pids $pid" ;;
    del) kept=""; for p in $pids; do [ "$p" = "$pid" ] || kept="$kept $p"; done; pids="$kept" ;;
  esac
done
for p in $pids; do kill -9 "-$p" 2>/dev/null; done
`;

export class Watchdog {
  private readonly shell: ChildProcess;

  constructor() {
    this.shell = spawn("/bin/sh", ["-c", SCRIPT], { stdio: ["pipe", "ignore", "ignore"], detached: true, env: {}, cwd: "/" });
    this.shell.on("error", () => undefined);
    this.shell.stdin?.on("error", () => undefined);
    this.shell.unref();
  }

  add(pid: number): void {
    this.shell.stdin?.write(`add ${pid}\n`);
  }

  remove(pid: number): void {
    this.shell.stdin?.write(`del ${pid}\n`);
  }
}
