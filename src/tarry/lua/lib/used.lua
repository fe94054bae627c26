-- What a topic uses: jobs with a priority (lib/priorities.lua), and with a key (lib/by_key.lua). One command reads both.

local used, has_keys  -- `priorities` and `keys` of `meta`, once they were read

local function priorities_used()
  if not used then
    local set = redis.call('HMGET', meta, 'priorities', 'keys')
    used, has_keys = set[1] or '', set[2]
  end
  return used
end

local function uses_keys() return priorities_used() and has_keys end

local function note_keys()
  has_keys = '1'
  redis.call('HSET', meta, 'keys', has_keys)
  redis.call('HSETNX', meta, 'ruled', 'keys')
end
