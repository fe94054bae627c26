local due, reserved, jobs, meta, watch, wake, relay = unpack(KEYS)
local clock, id, mark_and_due, value = unpack(ARGV)
--
-- Adds one job without a priority, due at any time. Only if its id is new.
-- Answers when it is due, with a minus if it is ready, or 0: nothing was written, add.lua judges it. The arguments are an item of
-- add.lua.
-- In place of an empty clock it gets the lease: the second of the server's clock for which the caller knows from `topic/add` that the topic has
-- no limits for producers. In any other second, and without one, nothing is written. A test's clock has it behind a blank.
-- include lease due_at new_job
if at <= now + HORIZON and tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]) >= at then
-- include limits handout_limits watch
  update_watch('', false, handout_limits())  -- else: a job that is not the earliest, or is due late, changes no alarm
end
return at > now and at or -at
