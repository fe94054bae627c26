local workers, heard, asked = unpack(KEYS)
local clock, worker, mode = unpack(ARGV)
--
-- Notes the mode that a worker is asked to take. It learns of it by the answer to its next report. Nothing is noted for a
-- worker that does not report. Answers whether it is alive.
-- include clock workers

if not is_alive(redis.call('ZSCORE', heard, worker)) then return 0 end
redis.call('HSET', asked, worker, mode)
redis.call('PEXPIRE', asked, 2 * TERM / 1000)
return 1
