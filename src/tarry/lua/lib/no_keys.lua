-- Ends the script, before anything is written, if one of these jobs has a key: then the caller sends it again with the keys of such jobs.
for i = 1, n do
  local run = known[i]
  if run and select(8, unpack_run(run)) then return redis.error_reply('KEYED a job of the topic has a key') end
end
if is_replay == '1' and redis.call('HEXISTS', meta, 'keys') == 1 then return redis.error_reply('KEYED a job of the topic has a key') end
