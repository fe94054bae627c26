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
    Fault("workers/report", "workers/report", "string.match(known, '^%d+') or text(now)", "text(now)"),
    Fault("workers/ask", "lib/workers", "tonumber(at) > now - TERM", "tonumber(at) >= now - TERM"),
    Fault("workers/leave", "workers/leave", "redis.call('HDEL', asked, worker)", ""),
    Fault("workers/list_reports", "workers/list_reports", "if is_alive(at) then", "if at then"),
    Fault("holders/announce", "holders/announce", "local begins = is_busy == '1' and", "local begins = is_busy == '0' and"),
    Fault("holders/announce", "lib/observers", "and not taken[group_of(name)] and", "and"),
    Fault("holders/announce", "lib/observers", "and not redis.call('ZSCORE', busy, name) then", "then"),
    Fault("holders/find_absent", "holders/find_absent", "if misses == ASKED then ask(name) end", ""),
    Fault("holders/find_absent", "holders/find_absent", "if seen_by ~= server or misses > 0 then", "if misses > 0 then"),
    Fault("holders/find_absent", "lib/observers", "math.min(pause, by + LATE + 1 - now)", "pause"),
    Fault("holders/withdraw", "holders/withdraw", "< MISSES then return 0 end", "<= MISSES then return 0 end"),
    Fault("partitions/find", "partitions/find", "redis.call('EXISTS', meta, jobs) > 0", "redis.call('EXISTS', jobs) > 0"),
    Fault("guarded/poll", "guarded/poll", "if bound ~= '' and late > tonumber(bound)", "if bound ~= '' and late >= tonumber(bound)"),
    Fault("guarded/push", "guarded/push", "(unit == 1 and n - index or 0)", "(unit == 1 and n or 0)"),
    Fault("schedules/declare", "schedules/declare", "affirmed > now - LEASE", "affirmed >= now - LEASE"),
    Fault("schedules/declare", "schedules/declare", "#kept < MOST", "#kept <= MOST"),
    Fault("schedules/fire", "schedules/fire", "and plan.after == tonumber(before)", ""),
    Fault("schedules/fire", "schedules/fire", "text(now + RETRY)", "text(now + LEASE)"),
    Fault("schedules/get", "schedules/get", "redis.call('HGET', declared, '')", "false"),
    Fault("schedules/list", "schedules/list", "redis.call('HGET', declared, id)", "false"),
    Fault("schedules/put", "schedules/put", "redis.call('HEXISTS', declared, id) == 0", "true"),
    Fault("schedules/put", "lib/schedule", "old and old.changed + 1 or 0", "0"),
    Fault("schedules/set_state", "schedules/set_state", "redis.call('HDEL', declared, id)", ""),
    Fault("topic/check", "topic/check", "if found > 1 then", "if found > 3 then"),
    Fault("topic/configure", "topic/configure", "own = place > 0 and version or", "own = place < 0 and version or"),
    Fault("topic/configure", "topic/configure", "(place < number % parts and 1 or 0)", "(place <= number % parts and 1 or 0)"),
    Fault("topic/due_soon", "topic/due_soon", "redis.call('ZCOUNT', reserved, '-inf', text(now))", "0"),
    Fault("topic/histogram", "topic/histogram", "'(' .. text(stop)", "text(stop)"),
    Fault("topic/list", "topic/list", "return #a > #b", "return false"),
    Fault("topic/list", "topic/list", "math.min(first + limit, last)", "math.min(first + limit - 1, last)"),
    Fault("topic/look", "topic/look", "(tonumber(set[3]) or math.huge) <= soon", "(tonumber(set[3]) or math.huge) < soon"),
    Fault("topic/purge", "topic/purge", "if place == 'retrying' then redis.call('ZREM', due, unpack(ids)) end", ""),
    Fault("topic/purge", "lib/window", "math.min(high, now)", "high"),
    Fault("topic/release_holder", "topic/release_holder", "receipt <= highest", "receipt < highest"),
    Fault("topic/release_holder", "lib/missed", "> MARK_KEPT then marks[holder] = nil", "< MARK_KEPT then marks[holder] = nil"),
    Fault("topic/stats", "topic/stats", "if back > wait then", "if back < wait then"),
    Fault("topic/throughput", "lib/totals", "+ n[5], n[1]", ", n[1]"),
    Fault("topic/touch_holder", "topic/touch_holder", "if over > now and", "if"),
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
]  # fmt: skip
