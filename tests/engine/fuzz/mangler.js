// Put before the bundled runner: while a call carries FUZZ<seed>., what the runner writes to the core is mangled by that seed.
const __fs = require("node:fs");
const __net = require("node:net");
const __real = { readSync: __fs.readSync, writeSync: __fs.writeSync, write: __net.Socket.prototype.write };
let __state = 0;
const __pick = (n) => {
  __state = (Math.imul(__state ^ (__state >>> 15), 2246822519) + 374761393) >>> 0;
  return __state % n;
};
const __look = (text) => {
  const found = /FUZZ(\d+)\./.exec(text);
  if (found) __state = Number(found[1]) || 1;
  else if (text.includes('"t":"start"')) __state = 0;
};
const __frame = (head, payload) => {
  const [h, p] = [Buffer.from(head), Buffer.from(payload)];
  const size = Buffer.alloc(8);
  size.writeUInt32LE(4 + h.length + p.length, 0);
  size.writeUInt32LE(h.length, 4);
  return Buffer.concat([size, h, p]);
};
const __forged = (own) => {
  const value = () => [own, 0, -1, 1, 2, 1e9, "x", null, {}, [], true, NaN][__pick(12)];
  const type = ["ready", "sync", "syscall", "log", "done", "head", "chunk", "yield", "start", "module", "nonsense", "__proto__", ""][__pick(13)];
  const op = ["1.0/get", "1.0/insert", "1.0/queryStream", "1.0/queryStreamNext", "1.0/queryPage", "1.0/runUdf", "1.0/remove", "1.0/schedule", "1.0/storageGetUrl",
    "1.0/actions/query", "1.0/actions/mutation", "1.0/actions/schedule", "host/fetch", "host/sleep", "1.0/getUserIdentity", "1.0/nothing", "constructor"][__pick(17)];
  const header = { t: type, call: __pick(3) ? own : value(), id: value(), op, ok: __pick(2) === 0, level: value(), end: value(), leaked: value(), status: value(), headers: value() };
  const payload = ["", "{", "null", "[]", "{}", '"x"', '{"table":"rows","value":{}}', '{"id":"x"}', '{"message":5,"frames":7,"data":"{"}', '{"message":"m","frames":["a"],"data":"1"}',
    '{"queryId":-1}', '{"name":"p:q","args":{}}', '{"udfType":"query","name":"p:q","args":{}}', "[".repeat(20000), "x".repeat(300000), "AAAA", '{"status":"x","headers":5}'][__pick(17)];
  return __frame(JSON.stringify(header), payload);
};
/** The bytes to send, and whether this process ends afterwards. */
const __mangle = (bytes) => {
  const head = bytes.subarray(8, 8 + bytes.readUInt32LE(4)).toString();
  const own = Number(/"call":(\d+)/.exec(head)?.[1] ?? 0);
  switch (__pick(14)) {
    case 0: return [Buffer.from(Array.from({ length: 1 + __pick(200) }, () => __pick(256))), true];
    case 1: return [Buffer.from([255, 255, 255, 255, 1, 2, 3]), true];
    case 2: return [bytes.subarray(0, __pick(bytes.length)), true];
    case 3: return [Buffer.concat([bytes, bytes]), __pick(2) === 0];
    case 4: return [Buffer.concat([bytes.subarray(0, __pick(bytes.length)), bytes]), true];
    case 5: { const flipped = Buffer.from(bytes); for (let i = 0; i <= __pick(6); i++) flipped[__pick(flipped.length)] = __pick(256); return [flipped, true]; }
    case 6: return [__frame(["[]", "null", "5", "{", '{"t":5}', "", "[".repeat(9000)][__pick(7)], ""), true];
    case 7: return [Buffer.concat([__frame(JSON.stringify({ t: "log", call: own, level: "INFO" }), "y".repeat(4_000_000)), bytes]), false];
    case 8: return [Buffer.alloc(0), true];
    case 9: return [bytes, false];
    default: return [Buffer.concat([...Array.from({ length: 1 + __pick(4) }, () => __forged(own)), bytes]), __pick(4) === 0];
  }
};
__fs.readSync = (fd, buffer, offset, length, position) => {
  const count = __real.readSync(fd, buffer, offset, length, position);
  if (fd === 3 && count > 4) __look(buffer.toString("utf8", offset, offset + count));
  return count;
};
__fs.writeSync = (fd, bytes, at, ...rest) => {
  if (fd !== 3 || __state === 0) return __real.writeSync(fd, bytes, at, ...rest);
  const [mangled, end] = __mangle(bytes);
  for (let sent = 0; sent < mangled.length; ) {
    try { sent += __real.writeSync(3, mangled, sent); } catch (error) { if (error.code !== "EAGAIN") process.exit(0); }
  }
  if (end) process.exit(0);
  return bytes.length - at;
};
__net.Socket.prototype.write = function (bytes, ...rest) {
  if (__state === 0) return __real.write.call(this, bytes, ...rest);
  const [mangled, end] = __mangle(bytes);
  return __real.write.call(this, mangled, end ? () => process.exit(0) : undefined);
};
const __emit = __net.Socket.prototype.emit;
__net.Socket.prototype.emit = function (name, ...rest) {
  if (name === "data") __look(rest[0].toString());
  return __emit.call(this, name, ...rest);
};
