-- A worker lives while it was heard within TERM: three times what it lets pass between two reports.

local TERM = 30000000

local function is_alive(at) return at and tonumber(at) > now - TERM end
