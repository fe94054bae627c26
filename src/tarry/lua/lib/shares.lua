-- Several merged calls in one script: the sum of what they ask for, and the share of each, in their order.
-- The arguments from `first` on say how many each asks for; each item has `wide` values.

local function sum_of_counts(first)
  local sum = 0
  for i = first, #ARGV do sum = sum + ARGV[i] end
  return sum
end

local function share_out(answers, first, found, wide)
  if #ARGV == first then
    answers[#answers + 1] = found
    return answers
  end
  local at = 1
  for i = first, #ARGV do
    local to = math.min(at + wide * ARGV[i] - 1, #found)
    answers[#answers + 1] = {unpack(found, at, to)}
    at = to + 1
  end
  return answers
end
