-- After a finish on a topic that keeps finished jobs: what a reader of ends could not find by itself.

while unread do  -- ends that are not kept, or no deaths any more
  note_unkept(unread[1], unread[2])
  unread = unread[3]
end
local found, n = read_spans(redis.call('HGET', meta, 'spans'))
local is_new = false
for _, job in ipairs(kept) do
  if type(job.written) ~= 'number' then note_unkept(now, job.id) end
  if job.before then note_unkept(finished_by(job.before), job.id) end  -- of an earlier job with the id, whose record is gone
  if job.span ~= usual and (found[job.span] or -1) < now then
    if n >= MOST_SPANS then
      found, n = {}, 0
      note_unkept(now, '')
    end
    if not found[job.span] then n = n + 1 end
    found[job.span], is_new = now + DAY_LONG, true
  end
end
if is_new then write_spans(found) end
if last_end > now + usual then
  local record = redis.pcall('HGET', results, last_id)
  local at = type(record) == 'string' and #record >= 9 and (struct.unpack('<d', record, 2)) or 0
  if at > now then note_unkept(at + 1, '', now) end  -- the clock was set back: readers may be behind this end
end
keep_unkept()
