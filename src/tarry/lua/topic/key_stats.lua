local due, reserved, dead, jobs, runs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- The numbers of keys. A reservation whose TTR is over is reserved until the next pop. Changes nothing.
-- Answers now, the limits for keys: jobs at a time, jobs in a span, the span in µs; then for each key: it, delayed, ready, reserved, held back, why none
-- of those that are ready may go (or nothing), until when, when the next one may go, the end of its pause.
-- include clock refuse_partitioned key_state

local FIRST, STRIDE = 2, 1
local answers = {now, places_of_key, of_rate, rate_span}
for i = FIRST, #ARGV, STRIDE do
  local state = state_of_key(ARGV[i])
  answers[#answers + 1] = {
    ARGV[i], state.waiting - state.ready, state.ready, state.reserved, state.ready - state.go,
    state.why, state.ends, state.next, state.paused,
  }
end
return answers
