-- What is known of the jobs that are settled: their ids, runs, and the ends of their reservations.

-- include given_jobs
local ends = redis.call('ZMSCORE', reserved, unpack(ids))
