-- The receipt of a hand-out, from the last one, `set[1]`: above it, and not before now. After a damaged one it is now.
local LARGEST_RECEIPT = 9007199254740990  -- one more is still exact
local last = tonumber(set[1] or 0) or 0
local receipt = last <= LARGEST_RECEIPT and last % 1 == 0 and math.max(last + 1, now) or now
