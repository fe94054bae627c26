-- Adds a job that is due `at`, if its id is new; else the script ends, and nothing was written.
if at > LAST_MOMENT or redis.call('HSETNX', jobs, id, struct.pack(MOMENT, now) .. value) == 0 then return 0 end
redis.call('ZADD', due, at, id)
