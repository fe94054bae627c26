-- Due jobs that are not handed out: their record cannot be read, or they are too late.

-- Why a record cannot be read: it is damaged, or a newer version wrote its flags.
local function unreadable(value, further)
  if not further then return 'damaged\nof its head and headers ' .. #value .. ' bytes are left' end
  return 'unknown flags ' .. further .. '\nwritten by a newer version of tarry'
end

local function bury_unreadable(id, value, further)
  if value then
    bury_run(id, 0, 0, 0, 0, '', unreadable(value, further))
    count('died', 1)
  else
    redis.call('HDEL', runs, id)
    redis.call('HDEL', attempts, id)
    count('lost', 1)
  end
  buried = buried + 1
end

-- Whether a job is later than it may be, by its own maximum or the topic's; then it is dead.
local function bury_late(id, at, run, max_lateness)
  if not max_lateness or now - at <= max_lateness then return false end
  local attempt, max_attempts, receipt_was, first, holder, _, is_changed = unpack_run(run or '')
  local fault = 'too late\nlate by ' .. math.floor((now - at) / 1000) .. ' ms'
  bury_run(id, attempt, max_attempts, receipt_was, first, holder, fault, is_changed)
  count('died', 1)
  count('too_late', 1)
  buried = buried + 1
  return true
end
