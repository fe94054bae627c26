-- The limit of a run: its handler's, if one is given (0: none is), else that with which it was handed out.
local function limit_of(limit, handlers) return handlers > 0 and handlers or limit end
