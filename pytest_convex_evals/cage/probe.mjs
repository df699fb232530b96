// Tries to break out of the cage that it was started in, and prints what it could do: {"done": [...]} with nothing in it is a cage.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";

const [secret, port] = process.argv.slice(2);
const done = [];
const attempt = (name, action) => {
  try {
    if (action() !== false) done.push(name);
  } catch {
    // Refused, as it must be.
  }
};

attempt("read a file outside", () => existsSync(secret));
attempt("list the home folders", () => existsSync("/home") || existsSync("/root"));
attempt("see other processes", () => readdirSync("/proc").some((name) => /^\d+$/.test(name)));
attempt("write to the root", () => writeFileSync("/written", "x"));
attempt("write beside the program", () => writeFileSync("/cage/written", "x"));
attempt("start a process", () => spawnSync(process.execPath, ["--version"]).status === 0);
attempt("keep the environment", () => Object.keys(process.env).some((name) => name !== "TZ" && name !== "PWD"));
attempt("signal another process", () => process.ppid > 1 && process.kill(process.ppid, 0));
const socket = connect(Number(port), "127.0.0.1");
socket.on("connect", () => done.push("reach a port outside"));
socket.on("error", () => undefined);
socket.on("close", () => process.stdout.write(JSON.stringify({ done })));
socket.on("connect", () => socket.destroy());
