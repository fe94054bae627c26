-- A worker is alive if it reported within TERM: three times the interval of its reports.

local TERM = 30000000

local function is_alive(at) return at and tonumber(at) > now - TERM end
