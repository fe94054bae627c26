-- When the item of a small add is due.
local us, at = string.sub(mark_and_due, 2), nil
if us == '0' then
  at = now - 1
elseif string.sub(us, 1, 1) == '@' then
  at = tonumber(string.sub(us, 2))
else
  at = now + us
end
if at == 0 then return 0 end  -- in 1970: the answer would say that nothing was written
