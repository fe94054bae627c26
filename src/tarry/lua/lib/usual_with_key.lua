-- A job that was taken by turns. The record of the usual one with a key has a nonce or none, and no other field.
counted_for = owners[i]
if counted_for then
  could_come = math.max(could_come, since[i])
  local top, flags = byte(value or '', FLAGS_AT - 1, FLAGS_AT)
  local from = flags and HEAD_SIZE + (flags % 16 >= HAS_NONCE and NONCE_SIZE or 0) or 0
  local further, more, length = byte(value or '', from + 1, from + 3)
  if flags and flags >= 128 and flags % 128 < HAS_HEADERS and top < BEYOND_2112 and further == 8 and more == 0 and length == #counted_for
    and #value >= from + 3 + length and not run and may_be_usual and now - at <= usual_max_lateness then
    if not run_with_key then
      local max_attempts = usual_max_attempts == NO_LIMIT and 0 or usual_max_attempts
      run_with_key = struct.pack(RUN, 1, 0, max_attempts, receipt, 0.5, #holder) .. holder
    end
    run = run_with_key .. string.char(length) .. counted_for
    is_ready = true
  end
end
