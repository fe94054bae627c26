-- Places of keys that have no turn became free: finds their turns, and calls a consumer if one has a job that may run.
-- include flags used by_key turns
for _, key in ipairs(full) do touch_key(key, math.huge, true) end
if keep_turns() then
-- include limits handout_limits watch
  update_watch('', false, handout_limits())
end
