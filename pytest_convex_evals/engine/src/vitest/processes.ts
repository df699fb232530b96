/** Starts the processes that graders want, each in a cage of its own, for as long as whoever wants it stays connected. */

import { spawn } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";

import { onLines, writeLine, type Input, type Told, type Wanted } from "../shared/lines.js";

const MAX_OUTPUT = 16 * 1024 * 1024;
const MAX_PROCESSES = 128;
const MAX_BYTES = 512 * 1024 * 1024;
const LOOK_MS = 250;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export interface Processes {
  /** The socket file on which they are asked for. */
  socket: string;
  /** What comes before a command line. */
  prefix: string[];
  /** Where they find programs. */
  path: string;
  /** Folders that they write to. */
  folders: string[];
}

export class ProcessServer {
  private readonly server: Server;
  private readonly open = new Set<Socket>();

  constructor(private readonly processes: Processes) {
    this.server = createServer((socket) => {
      this.open.add(socket);
      socket.on("close", () => this.open.delete(socket));
      socket.on("error", () => socket.destroy());
      let input: ((line: Input) => void) | null = null;
      onLines<Wanted & Input>(socket, (line) => {
        if (input === null) input = this.start(socket, line);
        else input(line);
      });
    });
    this.server.listen(processes.socket);
  }

  close(): void {
    this.server.close();
    for (const socket of this.open) socket.destroy();
    rmSync(this.processes.socket, { force: true });
  }

  private start(socket: Socket, { file, args, cwd, env }: Wanted): (line: Input) => void {
    const variables = Object.entries({ ...env, PATH: this.processes.path, HOME: "/tmp" }).filter(([name]) => NAME.test(name));
    const script = [
      `ulimit -p ${MAX_PROCESSES} 2>/dev/null || :`,
      ...variables.map(([name, value]) => `export ${name}=${quoted(value)}`),
      `cd ${quoted(cwd)} || exit 126`,
      'exec "$@"',
    ].join("\n");
    const [program, ...rest] = [...this.processes.prefix, "/bin/sh", "-c", script, "sh", file, ...args];
    const child = spawn(program as string, rest, { cwd: "/", env: {}, stdio: "pipe", detached: true });
    const kill = (): void => {
      try {
        if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) process.kill(-child.pid, "SIGKILL");
      } catch {
        // It is gone already.
      }
    };
    const watch = setInterval(() => {
      if (child.pid !== undefined && (countBelow(child.pid) > MAX_PROCESSES || sizeOf(this.processes.folders) > MAX_BYTES)) kill();
    }, LOOK_MS);
    const tell = (told: Told): boolean => writeLine(socket, told);
    let printed = 0;
    for (const [stream, name] of [[child.stdout, "out"], [child.stderr, "err"]] as const) {
      stream.on("data", (chunk: Buffer) => {
        printed += chunk.length;
        if (printed > MAX_OUTPUT) kill();
        else tell({ [name]: chunk.toString("base64") } as Told);
      });
    }
    child.on("error", (error) => tell({ err: Buffer.from(`${error.message}\n`).toString("base64") }));
    child.on("close", (code, signal) => {
      clearInterval(watch);
      // A launcher reports a signal as 128 plus its number; a shell does the same.
      tell({ code: code ?? 1, signal });
      socket.end();
    });
    socket.on("close", kill);
    child.stdin.on("error", () => undefined);
    return (line) => (line.in === null ? child.stdin.end() : child.stdin.write(Buffer.from(line.in, "base64")));
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Processes that a process has started, directly or not. */
function countBelow(pid: number): number {
  let children: number[] = [];
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim().split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return 0;
  }
  return children.reduce((sum, child) => sum + 1 + (sum > MAX_PROCESSES ? 0 : countBelow(child)), 0);
}

function sizeOf(folders: readonly string[]): number {
  let bytes = 0;
  for (const folder of folders) {
    try {
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) bytes += sizeOf([path]);
        else if (entry.isFile()) bytes += statSync(path).size;
      }
    } catch {
      // It is being changed.
    }
  }
  return bytes;
}
