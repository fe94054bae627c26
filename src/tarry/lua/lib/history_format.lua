-- The beginning of a record of the history (lib/history.lua).

local HISTORY_FORMAT, HISTORY = 1, '<BdBHHII'
