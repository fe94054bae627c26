// A program in another language that adds, pops and finishes jobs beside Python: by the scripts in src/tarry/lua and their contract.md.
//
//   node examples/node/tarry.mjs add redis://127.0.0.1:6379 mails '{"to": "ada"}'   the id of the job
//   node examples/node/tarry.mjs pop redis://127.0.0.1:6379 mails                   id, receipt and body, or nothing
//   node examples/node/tarry.mjs finish redis://127.0.0.1:6379 mails ID RECEIPT     done, or why the receipt does not hold
//   node examples/node/tarry.mjs vectors unix:///path/of/a/test/server              every line of vectors/; the server must be empty
//
// It needs no package. Every string here stands for bytes, one for each character (latin1); `text` and `bytes` convert.

import { createHash, randomBytes } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import { isDeepStrictEqual } from "node:util";

const LUA = new URL("../../src/tarry/lua/", import.meta.url);
const MOMENT = 7, HAS_NONCE = 8, HAS_FURTHER = 128, HAS_TTR = 32, HAS_ATTEMPTS = 64, HAS_HEADERS = 16; // lib/job.lua, lib/flags.lua
const bytes = (text) => Buffer.from(text, "utf8").toString("latin1");
const text = (bytes) => Buffer.from(bytes, "latin1").toString("utf8");

/** The script with its shared parts, as the contract says. */
function assembled(name) {
  return readFileSync(new URL(`${name}.lua`, LUA), "utf8").replace(/^-- include ([\w/ ]+)$/gm, (_, names) =>
    names.split(" ").map((part) => assembled(part.replace(/^(?:(.*)\/)?([^/]*)$/, (_, folder, own) =>
      folder ? `${folder}/lib/${own}` : `lib/${own}`))).join("\n"));
}

/** The names of a script's keys, from its first line. */
const partsOf = (name) => assembled(name).match(/^local ([\w, ]+) = unpack\(KEYS\)$/m)[1].split(", ");

/** One reply of the server from `at` on, and where it ends; nothing if it is not complete. */
function parse(data, at) {
  const end = data.indexOf("\r\n", at, "latin1");
  if (end < 0) return;
  const head = data.toString("latin1", at + 1, end), kind = String.fromCharCode(data[at]);
  if (kind === "+") return [head, end + 2];
  if (kind === "-") return [{ error: head.split(" script: ")[0] }, end + 2];
  if (kind === ":") return [Number(head), end + 2];
  if (head === "-1") return [null, end + 2];
  if (kind === "$") {
    const stop = end + 2 + Number(head);
    return data.length < stop + 2 ? undefined : [data.toString("latin1", end + 2, stop), stop + 2];
  }
  const list = [];
  for (let next = end + 2; ; ) {
    if (list.length === Number(head)) return [list, next];
    const item = parse(data, next);
    if (!item) return;
    list.push(item[0]);
    next = item[1];
  }
}

/** A connection that sends commands and reads their replies in order. */
class Server {
  #data = Buffer.alloc(0);
  #waiting = [];
  #loaded = new Map();
  published = null; // a list, as soon as it subscribes

  constructor(url) {
    const { protocol, hostname, port, pathname } = new URL(url);
    this.socket = protocol === "unix:" ? connect(pathname) : connect(Number(port || 6379), hostname);
    this.socket.on("error", (error) => this.#waiting.splice(0).forEach((one) => one.reject(error)));
    this.socket.on("data", (chunk) => {
      this.#data = Buffer.concat([this.#data, chunk]);
      for (let reply; (reply = parse(this.#data, 0)); this.#take(reply[0])) this.#data = this.#data.subarray(reply[1]);
    });
  }

  #take(reply) {
    const published = this.published && { message: "PUBLISH", smessage: "SPUBLISH" }[reply[0]];
    if (published) this.published.push([published, ...reply.slice(1)]);
    else this.#waiting.shift().resolve(reply);
  }

  /** One command; its reply, errors too. */
  ask(...words) {
    const packed = words.map(String).map((word) => `$${word.length}\r\n${word}\r\n`).join("");
    this.socket.write(Buffer.from(`*${words.length}\r\n${packed}`, "latin1"));
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** The hash of a script that the server has. */
  async load(name) {
    if (!this.#loaded.has(name)) {
      const source = assembled(name);
      await this.ask("SCRIPT", "LOAD", bytes(source));
      this.#loaded.set(name, createHash("sha1").update(source).digest("hex"));
    }
    return this.#loaded.get(name);
  }

  /** Calls a script of a topic by the server's clock; raises its error. */
  async call(name, namespace, topic, ...args) {
    const keys = partsOf(name).map((part) => `tarry:{${bytes(`${namespace}/${topic}`)}}:${part}`);
    const reply = await this.ask("EVALSHA", await this.load(name), keys.length, ...keys, "", ...args);
    if (reply?.error) throw new Error(reply.error);
    return reply;
  }
}

/** A topic without partitions, whose jobs have JSON bodies. */
export class Topic {
  constructor(url, name, namespace = "default") {
    Object.assign(this, { server: new Server(url), name, namespace });
  }

  async add(body, delayUs = 0) {
    const id = randomBytes(12).toString("hex");
    await this.server.ask("SADD", `tarry:${bytes(this.namespace)}:topics`, bytes(this.name)); // for lists of topics
    const reply = await this.server.call("topic/add", this.namespace, this.name, "all", "0", 0, id, `e${delayUs}`, // a nonce: a repeated call adds nothing
      String.fromCharCode(HAS_NONCE) + randomBytes(6).toString("latin1") + bytes(JSON.stringify(body)));
    if (reply === "FULL") throw new Error(`${this.name} is full: nothing was added`);
    return id;
  }

  async pop() {
    const reply = await this.server.call("topic/pop", this.namespace, this.name, 1, 0, "node", "", 1);
    const [, receipt, , , , , [id, record]] = reply;
    return id === undefined ? null : { id: text(id), receipt, body: JSON.parse(text(bodyOf(record))) };
  }

  /** 1, or why the receipt does not hold. */
  async finish({ id, receipt }) {
    const reply = await this.server.call("topic/finish", this.namespace, this.name, 0, bytes(id), receipt, "");
    return Array.isArray(reply) ? reply[0] : reply;
  }

  close() { this.server.socket.end(); }
}

const bytes32 = (record, at) => [3, 2, 1, 0].reduce((sum, i) => 256 * sum + record.charCodeAt(at + i), 0);

/** What is behind the head of a record and its headers. */
function bodyOf(record) {
  const flags = record.charCodeAt(MOMENT);
  let at = MOMENT + 1, further = 0;
  if (flags & HAS_NONCE) at += 6;
  if (flags & HAS_FURTHER) {
    further = record.charCodeAt(at);
    at += 2;
  }
  if (flags & HAS_TTR) at += 4;
  if (flags & HAS_ATTEMPTS) at += 4;
  if (further & 1) at += 8; // the maximum lateness
  if (further & 2) at += 8; // the moment of the first event
  if (further & 4) at += 4 + bytes32(record, at); // steps
  if (flags & HAS_HEADERS) at += 2 + record.charCodeAt(at) + 256 * record.charCodeAt(at + 1);
  return record.slice(at);
}

const SERVER_ID = "0".repeat(40);
const READS = { hash: ["HGETALL"], zset: ["ZRANGE", 0, -1, "WITHSCORES"], list: ["LRANGE", 0, -1], string: ["GET"] };
const pairs = (flat) => Object.fromEntries(flat.flatMap((one, i) => (i % 2 ? [] : [[one, flat[i + 1]]])));

/** Runs every vector; returns the names of those that come out otherwise, and how many there are. */
export async function runVectors(url) {
  const server = new Server(url), other = new Server(url), wrong = [];
  if ((await server.ask("DBSIZE")) !== 0) throw new Error("The server is not empty: start one for this.");
  const folder = new URL("vectors/", LUA), files = readdirSync(folder).map((file) => readFileSync(new URL(file, folder), "latin1"));
  const id = /master_replid:(\w+)/.exec(await server.ask("INFO", "replication"))[1];
  const vectors = files.join("").replaceAll(SERVER_ID, id).trim().split("\n").map((line) => JSON.parse(line));
  for (const { name, before, subscribed = [], script, keys, args, reply, after, published = [] } of vectors) {
    const sha = await server.load(script);
    other.published = [];
    await Promise.all(subscribed.flatMap((channel) => [other.ask("SUBSCRIBE", channel), other.ask("SSUBSCRIBE", channel)]));
    server.ask("MULTI"); // time stands still in it
    let count = 0;
    const queue = (...words) => (server.ask(...words), count++);
    for (const [key, { hash, zset, list, string, expires, field_expires = {} }] of Object.entries(before)) {
      if (hash) queue("HSET", key, ...Object.entries(hash).flat());
      else if (zset) queue("ZADD", key, ...Object.entries(zset).flatMap(([member, score]) => [score, member]));
      else if (list) queue("RPUSH", key, ...list);
      else queue("SET", key, string);
      if (expires) queue("EXPIRE", key, expires);
      for (const [field, seconds] of Object.entries(field_expires)) queue("HEXPIRE", key, seconds, "FIELDS", 1, field);
    }
    const called = queue("EVALSHA", sha, keys.length, ...keys, ...args);
    for (const key of keys) queue("TTL", key);
    const fields = script.includes("/native_") ? [...args, ...Object.keys(before[keys[0]]?.hash ?? {})] : [];
    if (fields.length) queue("HTTL", keys[0], "FIELDS", fields.length, ...fields);
    const replies = await server.ask("EXEC"), left = replies.slice(called + 1);
    const found = {}, names = await server.ask("KEYS", "*");
    for (const key of names) {
      const kind = await server.ask("TYPE", key), [command, ...rest] = READS[kind], kept = await server.ask(command, key, ...rest);
      found[key] = { [kind]: kind === "hash" || kind === "zset" ? pairs(kept) : kept };
      if (left[keys.indexOf(key)] > 0) found[key].expires = left[keys.indexOf(key)];
    }
    const lasting = fields.map((field, i) => [field, left[keys.length][i]]).filter(([, seconds]) => seconds > 0);
    if (lasting.length) found[keys[0]].field_expires = Object.fromEntries(lasting);
    if (names.length) await server.ask("DEL", ...names);
    await Promise.all(subscribed.flatMap((channel) => [other.ask("UNSUBSCRIBE", channel), other.ask("SUNSUBSCRIBE", channel)]));
    other.published.sort(([, one], [, two]) => (one < two ? -1 : one > two ? 1 : 0));
    if (!isDeepStrictEqual([replies[called], found, other.published], [reply, after, published])) wrong.push(`${script}: ${name}`);
  }
  server.socket.end();
  other.socket.end();
  return { wrong, count: vectors.length };
}

const [verb, url, topic, ...rest] = process.argv.slice(2);
if (verb === "vectors") {
  const { wrong, count } = await runVectors(url);
  console.log(wrong.length ? `${wrong.length} of ${count} vectors come out otherwise:\n${wrong.join("\n")}` : `${count} vectors hold`);
  process.exitCode = wrong.length ? 1 : 0;
} else if (["add", "pop", "finish"].includes(verb)) {
  const jobs = new Topic(url, topic);
  if (verb === "add") console.log(await jobs.add(JSON.parse(rest[0])));
  if (verb === "pop") console.log(JSON.stringify(await jobs.pop()));
  if (verb === "finish") console.log(await jobs.finish({ id: rest[0], receipt: rest[1] }));
  jobs.close();
}
