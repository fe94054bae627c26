-- The steps of a job, which its handler keeps: a field of its record (lib/flags.lua). They go where the job goes, and end with its body.
--
--   ┌ length B ┬ name ┬ length I ┬ result ┬ … ┐   in the order in which they were kept

local MOST_OF_STEPS = 65536  -- bytes, with names and lengths

-- The steps of a record that can be read, as they are stored.
local function steps_of(value) return string.sub(fields_of(value)[HAS_STEPS] or '', 5) end

-- The result of the step with this name, or nothing.
local function result_of(steps, name)
  local at = 1
  while at <= #steps do
    local from = at + 1 + string.byte(steps, at)
    if from + 3 > #steps then return end  -- damaged
    local size = struct.unpack('<I', steps, from)
    if string.sub(steps, at + 1, from - 1) == name then return string.sub(steps, from + 4, from + 3 + size) end
    at = from + 4 + size
  end
end

local function with_step(steps, name, result)
  return steps .. string.char(#name) .. name .. struct.pack('<I', #result) .. result
end
