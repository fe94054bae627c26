-- The limit of a run (0: none): its handler's, if that says one (0: it does not), else that with which it was handed out.
local function limit_of(limit, handlers)
  if handlers == 0 then return limit end
  return handlers < NO_LIMIT and handlers or 0
end
