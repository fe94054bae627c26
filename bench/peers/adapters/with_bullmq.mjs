// BullMQ: a worker with 100 jobs at once; finished jobs are removed, as its page "Going to production" advises.
// The same commands, answers and report as side.py.

import { closeSync, openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";

const { Queue, Worker } = createRequire(process.env.PEERS_ENVIRONMENT + "/")("bullmq");
const QUEUE = "orders", SIZE = 200, CHUNK = 1000, TASKS = 64, SLOTS = 100, HOLD_MS = 3_600_000;
const OPTIONS = { removeOnComplete: true, removeOnFail: true };
const [role, url, slots, report] = process.argv.slice(2);
const { hostname: host, port } = new URL(url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

const now = () => (performance.timeOrigin + performance.now()) / 1000;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const makeBody = (number, due, word = "done") =>
  `${String(number).padStart(8, "0")} ${due.toFixed(6)} ${word} `.padEnd(SIZE, "x");

function work() {
  const file = openSync(report, "a", 0o600);
  const worker = new Worker(QUEUE, async ({ data: body }) => {
    writeSync(file, `${body.slice(0, 26)} ${now().toFixed(6)}\n`);
    if (body.slice(27, 31) === "hold") await sleep(HOLD_MS);
  }, { connection, concurrency: Number(slots) || SLOTS, ...{ removeOnComplete: { count: 0 }, removeOnFail: { count: 0 } } });
  worker.on("error", (error) => console.error(String(error)));
  process.on("exit", () => closeSync(file));
}

class Producer {
  constructor(queue) { this.queue = queue; }
  addOne(body, due) { return this.queue.add("run", body, { ...OPTIONS, delay: Math.max(0, Math.round((due - now()) * 1000)) }); }

  async timed(adding) {
    const cpu = process.cpuUsage(), began = performance.now();
    const jobs = await adding();
    const { user, system } = process.cpuUsage(cpu);
    return { jobs, wall_s: (performance.now() - began) / 1000, cpu_s: (user + system) / 1e6 };
  }

  add({ first, count, due_in, within_s, word }) {
    const due = now() + due_in, stopAt = now() + within_s;
    return this.timed(async () => {
      let jobs = 0;
      while (jobs < count) {
        await this.addOne(makeBody(first + jobs, due, word), due);
        jobs += 1;
        if (jobs % 16 === 0 && now() > stopAt) break;
      }
      return jobs;
    });
  }

  many({ first, count, due_in, within_s }) {
    const due = now() + due_in, stopAt = now() + within_s;
    return this.timed(async () => {
      let jobs = 0;
      while (jobs < count && now() < stopAt) {
        const size = Math.min(CHUNK, count - jobs), delay = Math.max(0, Math.round((due - now()) * 1000));
        await this.queue.addBulk(Array.from({ length: size }, (_, at) => (
          { name: "run", data: makeBody(first + jobs + at, due), opts: { ...OPTIONS, delay } })));
        jobs += size;
      }
      return jobs;
    });
  }

  burst(command) { return this.many(command); }

  tasks({ first, count, due_in, within_s }) {
    const due = now() + due_in, stopAt = now() + within_s;
    return this.timed(async () => {
      let next = 0, jobs = 0;
      const task = async () => {
        while (next < count && now() < stopAt) {
          await this.addOne(makeBody(first + next++, due), due);
          jobs += 1;
        }
      };
      await Promise.all(Array.from({ length: TASKS }, task));
      return jobs;
    });
  }

  async paced({ first, count, rate, delays_s: [low, high], behind_s }) {
    const began = now();
    let jobs = 0;
    for (; jobs < count; jobs++) {
      const wait = began + jobs / rate - now();
      if (wait > 0.001) await sleep(wait * 1000);
      else if (wait < -behind_s) break;
      const due = now() + low + Math.random() * (high - low);
      await this.addOne(makeBody(first + jobs, due), due);
    }
    return { jobs, wall_s: now() - began, cpu_s: 0 };
  }
}

async function produce() {
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  const producer = new Producer(queue);
  console.log(JSON.stringify({ ready: true }));
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    const answer = await producer[command.do](command).catch((error) => ({ error: String(error) }));
    console.log(JSON.stringify(answer));
  }
  process.exit(0);
}

if (role === "work") work(); else await produce();
