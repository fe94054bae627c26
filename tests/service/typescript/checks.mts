// What the types of /openapi.json allow, and what the service answers: compiled and run by tests/service/test_typescript.py.

import createClient from "openapi-fetch";
import type { components, paths } from "./tarry.d.ts";

const tarry = createClient<paths>({ baseUrl: "http://localhost:7117" });
const path = { topic: "checks" };
const params = { params: { path } };
const of = (id: string) => ({ params: { path: { ...path, id } } });

function equal(found: unknown, wanted: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
}

// What is refused is a fault of the types, too.
() => tarry.POST("/v1/topics/{topic}/jobs", { ...params, body: { body: 1, delay: "1s" } });
// @ts-expect-error: neither body nor body_base64
() => tarry.POST("/v1/topics/{topic}/jobs", { ...params, body: { delay: "1s" } });
// @ts-expect-error: both of them
() => tarry.POST("/v1/topics/{topic}/jobs", { ...params, body: { body: 1, body_base64: "MQ==" } });
// @ts-expect-error: no such choice
() => tarry.POST("/v1/topics/{topic}/jobs", { ...params, body: { body: 1, if_exists: "ignore" } });
// @ts-expect-error: two moments
() => tarry.POST("/v1/topics/{topic}/jobs", { ...params, body: { body: 1, delay: 1, at: "2030-01-01T00:00:00Z" } });
// @ts-expect-error: the receipt is missing
() => tarry.POST("/v1/topics/{topic}/jobs/{id}/finish", { ...of("7"), body: {} });
// @ts-expect-error: neither delay nor at
() => tarry.POST("/v1/topics/{topic}/jobs/{id}/reschedule", { ...of("7"), body: {} });

// What an answer leaves out may be missing; what it always has is there.
const spans = (job: components["schemas"]["PoppedJob"]): [number, number, string] => [job.receipt, job.ttr_ms, job.due];
// @ts-expect-error: headers are left out where there are none
(job: components["schemas"]["PoppedJob"]) => job.headers.trace;

equal((await tarry.PATCH("/v1/topics/{topic}/settings", { ...params, body: { max_pending: 1 } })).response.status, 200);
const added = await tarry.POST("/v1/topics/{topic}/jobs", { ...params, body: { body: { n: 1 }, id: "1" } });
equal([added.response.status, added.data?.id, added.data?.is_new, added.data?.state], [201, "1", true, "ready"]);

const full = await tarry.POST("/v1/topics/{topic}/jobs", { ...params, body: { body: { n: 2 }, id: "2" } });
const problem: components["schemas"]["Problem"] | undefined = full.error;
equal([full.response.status, problem?.status, problem?.code], [429, 429, "topic_full"]);
equal(full.response.headers.get("retry-after"), "1");

const { data: job } = await tarry.POST("/v1/topics/{topic}/pop", { ...params, body: { wait: "30s", ttr: "1m" } });
if (!job) throw new Error("no job");
equal(job.body, { n: 1 });
equal(spans(job), [job.receipt, 60_000, job.due]);
equal(job.headers, undefined);
const wrong = await tarry.POST("/v1/topics/{topic}/jobs/{id}/finish", { ...of(job.id), body: { receipt: job.receipt + 1 } });
equal([wrong.response.status, wrong.error?.code], [409, "stale_receipt"]);
const done = await tarry.POST("/v1/topics/{topic}/jobs/{id}/finish", { ...of(job.id), body: { receipt: job.receipt } });
equal([done.response.status, done.error], [204, undefined]);
const none = await tarry.POST("/v1/topics/{topic}/pop", { ...params, body: {} });
equal([none.response.status, none.data], [204, undefined]);
console.log("checked");
