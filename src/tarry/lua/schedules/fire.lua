local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared, priority1, priority2, priority3 = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, at, changed, next, after, skipped, occurrences = unpack(ARGV, i, i + 6)
--
-- Adds the jobs of a schedule's occurrences ("1700000000000000 2023-11-14T22:13:20Z …") and moves it on to the next one, if it
-- is unchanged since it was read: so a second client, or a repeated call, adds nothing. No next: it has ended.
-- The job of an occurrence is named after both: if a job of that name exists, none is added.
-- Answers for each how many were added, or -1 if another client was first.
-- include clock job flags limits handout_limits watch schedule priorities

local FIRST, STRIDE = 2, 7
local stamp, answers = struct.pack(MOMENT, now), {}
for i = FIRST, #ARGV, STRIDE do
  local id, at, changed, next, after, skipped, occurrences = unpack(ARGV, i, i + 6)
  local plan, score, added = redis.call('HGET', plans, id), redis.call('ZSCORE', schedules, id), -1
  plan = plan and is_readable(plan) and unpack_schedule(plan)
  if plan and score and tonumber(score) == tonumber(at) and plan.changed == tonumber(changed) then
    redis.call('ZREM', schedules, id)  -- the first write is a removal: works with a full memory too
    if next ~= '' then redis.call('ZADD', schedules, next, id) end
    added = 0
    local priority = priority_of(string.byte(plan.value) or 0)
    for moment, name in string.gmatch(occurrences, '(%d+) (%S+)') do
      local job = id .. '@' .. name
      if redis.call('HSETNX', jobs, job, stamp .. plan.value) == 1 then
        redis.call('ZADD', due, moment, job)
        if priority > 0 then index_jobs(priority, {moment, job}) end
        added = added + 1
      end
    end
    plan.after, plan.fired, plan.skipped = tonumber(after), plan.fired + added, plan.skipped + tonumber(skipped)
    write_schedule(id, plan)
  end
  answers[#answers + 1] = added
end
note_next_schedule()
return answers
