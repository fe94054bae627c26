-- Finds the turns of these keys again; the ring goes on.
local function turns_again(names, last_turn)
-- include run flags priorities by_key turns
  used, has_keys = uses_priorities, rules[12]
  read_key_limits(key_rules[1], last_turn, key_rules[3])
  for _, key in ipairs(names) do touch_key(key) end
  keep_turns()
  return ring
end
