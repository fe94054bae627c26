"""Faults for the vectors to find: a file, a piece of its text, and what stands there instead."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A planted change; ``script`` is the one whose vectors must notice it."""

    script: str
    file: str
    old: str
    new: str


FAULTS = [
    Fault("topic/add", "topic/add", "if delay == 0 then return since - n + index end", "if delay == 0 then return since + index end"),
    Fault("topic/add", "lib/migrated_job", "if name == 'dead' then", "if name == 'died' then"),
    Fault("topic/add_soon", "topic/add_soon", "return at > now and at or -at", "return at"),
    Fault("topic/add_later", "topic/add_later", "if at <= now + HORIZON then", "if at < now + HORIZON then"),
    Fault("topic/pop", "topic/pop", "if usual_ttr == 0 then", "if usual_ttr < 0 then"),
    Fault("topic/pop", "lib/expired_reservations", "count('timed_out', #ids)", "count('timed_out', #ids + 1)"),
    Fault("topic/pop", "lib/take_jobs", "local ends = now + time + handed", "local ends = now + time"),
    Fault("topic/pop", "lib/minutes", "if hour ~= last and", "if hour == last and"),
    Fault("topic/finish", "topic/finish", "if finished_now == n then return n end", ""),
    Fault("topic/finish", "lib/history", "return span or 0, KINDS[kind] or NO_RESULT", "return span or 0, NO_RESULT"),
    Fault("topic/release", "topic/release", "fault = EXHAUSTED .. fault", "fault = fault .. EXHAUSTED"),
    Fault("topic/release", "lib/retries", "+ KEPT))", "+ KEPT + 1))"),
    Fault("topic/touch", "topic/touch", "tonumber(ttr) + #answers", "tonumber(ttr)"),
    Fault("topic/bury", "topic/bury", "if first == 0 then first = now end", ""),
    Fault("topic/kick", "topic/kick", "redis.call('HDEL', attempts, id)", ""),
    Fault("topic/delete", "topic/delete", "local stays = only ~= '' and state ~= only", "local stays = only ~= ''"),
    Fault("topic/reschedule", "topic/reschedule", "state == 'delayed' or state == 'ready'", "state == 'delayed'"),
    Fault("topic/pop_by_id", "topic/pop_by_id", "if limit == NO_LIMIT then limit = 0 end", ""),
    Fault("topic/confirm", "topic/confirm", "pack_run(attempt, attempt,", "pack_run(attempt, limit,"),
    Fault("topic/cancel", "topic/cancel", "+ MINUTE", ""),
    Fault("topic/cancelled", "topic/cancelled", "and 1 or 0", "and 1 or 1"),
    Fault("topic/get", "topic/get", "history == '1' and", "history == '0' and"),
    Fault("topic/set_headers", "topic/set_headers", "flags = flags - HAS_HEADERS", "flags = flags"),
    Fault("topic/leave", "topic/leave", "update_watch(waiter", "update_watch(''"),
    Fault("topic/pause", "topic/pause", "if paused > now then", "if paused < now then"),
    Fault("locks/acquire", "locks/acquire", "(tonumber(last) or 0) + 1", "(tonumber(last) or 0)"),
    Fault("locks/release", "locks/release", "is_replay == '1' and 1 or 0", "0"),
    Fault("locks/renew", "locks/renew", "if redis.call('PTTL', lock) < tonumber(lease) then", "if false then"),
    Fault("locks/read", "locks/read", "redis.call('HGETALL', lock)", "{}"),
    Fault("locks/force_release", "lib/unlock", "redis.call('DEL', lock)", ""),
    Fault("tokens/store", "tokens/store", "redis.call('HINCRBY', tokens, 'version', 1)", ""),
    Fault("redisson/delayed/add_poison", "redisson/delayed/add_poison", "text(math.floor(now / 1000))", "text(now)"),
    Fault("redisson/delayed/claim", "redisson/delayed/claim", "or departure == overtaken", ""),
    Fault("redisson/delayed/claim", "lib/departure", "last + 1, above", "above"),
    Fault("redisson/delayed/drop", "redisson/delayed/drop", "if work >= WORK then break end", ""),
    Fault("redisson/delayed/drop", "redisson/lib/remove_element", "'LREM', order, rank, element", "'LREM', order, -rank, 'x'"),
    Fault("redisson/delayed/find", "redisson/delayed/find", "-1 - from", "-1"),
    Fault("redisson/delayed/offer", "redisson/delayed/offer", "if how == SAID and given", "if given"),
    Fault("redisson/delayed/offer", "redisson/delayed/offer", "if first then redis.pcall('PUBLISH', channel, text(first)) end", ""),
    Fault("redisson/delayed/page", "redisson/delayed/page", "for i = #elements, 1, -1 do", "for i = 1, #elements do"),
    Fault("redisson/delayed/pass_on", "redisson/delayed/pass_on", "'LPUSH', target, payload", "'LPUSH', target, element"),
    Fault("redisson/delayed/poll", "redisson/delayed/poll", "or text(math.ceil(now / 1000))", "or text(0)"),
    Fault("redisson/delayed/preview", "redisson/delayed/preview", "for i = #found - 1, 1, -2 do", "for i = 1, #found, 2 do"),
    Fault("redisson/delayed/put_back", "redisson/delayed/put_back", "if added == 1 then redis.call('LPUSH', order, element) end", "redis.call('LPUSH', order, element)"),
    Fault("redisson/delayed/queue_stats", "redisson/delayed/queue_stats", "now - 1000000", "now"),
    Fault("redisson/delayed/transfer", "redisson/delayed/transfer", "at(ARGV[FIRST]) == due[1] and ", ""),
    Fault("redisson/delayed/transfer", "redisson/lib/seats", "math.max(promised + intervals.grace, now + intervals.least)", "promised + intervals.grace"),
    Fault("redisson/delayed/transfer", "redisson/lib/element", "and how == SEEN and known", "and known"),
    Fault("redisson/mapcache/add", "redisson/mapcache/add", "string.find(number, WHOLE) and string.find(delta, WHOLE)", "false"),
    Fault("redisson/mapcache/add", "redisson/lib/stored_reply", "if stored then", "if false then"),
    Fault("redisson/mapcache/evict", "redisson/mapcache/evict", "first == NEVER and now + ROUND or", ""),
    Fault("redisson/mapcache/evict", "redisson/lib/entry", "if not (idle > 0 and idle < math.huge) then idle = 0 end", ""),
    Fault("redisson/mapcache/evict", "redisson/lib/expire_entries", "if packed and set == idles and idle == 0 then", "if false then"),
    Fault("redisson/mapcache/expire", "redisson/mapcache/expire", "elseif i < 3 or max_size > 0 then", "else"),
    Fault("redisson/mapcache/expire_entry", "redisson/mapcache/expire_entry", "if idle <= 0 then redis.call('ZREM', idles, key) end", ""),
    Fault("redisson/mapcache/get_entry", "redisson/mapcache/get_entry", "expires_at(key, 0) > now_ms", "expires_at(key, 0) >= now_ms"),
    Fault("redisson/mapcache/lease", "redisson/mapcache/lease", "redis.call('HSETNX', options, 'has-listeners', '1')", ""),
    Fault("redisson/mapcache/limit", "redisson/mapcache/limit", "(there[2] or 'LRU')", "there[2]"),
    Fault("redisson/mapcache/native_add", "redisson/mapcache/native_add", "publish(hints, 'key' .. key)", ""),
    Fault("redisson/mapcache/native_expire_entry", "redisson/mapcache/native_expire_entry", "left == -1 or left >= 0 and if_not_set == '0'", "left >= -1"),
    Fault("redisson/mapcache/native_lease", "redisson/mapcache/native_lease", "if holder == token then return {1} end", ""),
    Fault("redisson/mapcache/native_put", "redisson/mapcache/native_put", "keep == '1' and was and left_of(key) or tonumber(ttl)", "tonumber(ttl)"),
    Fault("redisson/mapcache/native_remove", "redisson/mapcache/native_remove", "(does or condition == 'any') and", "does and"),
    Fault("redisson/mapcache/put", "redisson/mapcache/put", "with_old == '1' or not does", "with_old == '1'"),
    Fault("redisson/mapcache/put", "redisson/lib/write_entry", "and was_idle ~= 0", "and was_idle == 0"),
    Fault("redisson/mapcache/put", "redisson/lib/event", "return old and message", "return false and message"),
    Fault("redisson/mapcache/put", "redisson/lib/max_size", "key ~= except and", ""),
    Fault("redisson/mapcache/put", "redisson/lib/evictor_hint", "now_ms + FAR", "now_ms + FAR - 1"),
    Fault("redisson/mapcache/remove", "redisson/mapcache/remove", "(condition == 'any' or was == expected)", "was"),
    Fault("redisson/mapcache/scan", "redisson/mapcache/scan", "> now_ms", ">= now_ms"),
    Fault("redisson/mapcache/stats", "redisson/mapcache/stats", "now - LATE", "now"),
    Fault("redisson/mapcache/sweep", "redisson/mapcache/sweep", "redis.call('EXPIRE', latch, held)", ""),
    Fault("redisson/mapcache/trim", "redisson/mapcache/trim", "'NX', 0", "0"),
    Fault("redisson/mapcache/ttl", "redisson/mapcache/ttl", "ends == NEVER and -1 or", ""),
    Fault("redisson/mapcache/unlease", "redisson/mapcache/unlease", "publish(hints, 'key' .. key)", ""),
]  # fmt: skip
