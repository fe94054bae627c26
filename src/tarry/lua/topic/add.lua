local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, keyed, by_key, turns, paces = unpack(KEYS)
local clock, mode, lease, is_replay = unpack(ARGV)
-- each: id, mark_and_due, value = unpack(ARGV, i, i + 2)
--
-- Adds jobs. `mark_and_due` begins with what to do if the id is taken (e: error, k: keep, r: replace, n: it is new, tarry
-- made it; s and a nonce: replace the job with this nonce, refuse any other; l, µs and a space: replace it, due at the latest so long
-- after its first event; u: update it, lib/update.lua), then a delay in µs, or "@" and a moment. Item i of n is due i µs after its delay, so that jobs keep their
-- order; without a delay it is due just before now, so that the next pop finds it. A delay below 0 is that of a portion of more jobs.
-- mode "all": if one job cannot be added, none is; "each": only that one is refused.
-- A job that exists with the same nonce is this very job, added before by a call whose answer was lost.
--
-- Without a `lease` (the second of lib/lease.lua) it looks at the limits for producers: jobs that would be new and are beyond them are
-- refused, unless it is "moved": they come from another topic.
--
-- Answers now, with a minus if the topic has such limits, then for each item: its due time, or the state of the job that has its id
-- ("!dead 1700000000000000"; "=" if that was kept or updated), or "9999", or "full". Refuses in mode "all": "EXISTS index state since",
-- "FULL".
-- include clock job count nonce flags

local ended  -- none: see topic/add_once.lua
-- include add_items
return answers
