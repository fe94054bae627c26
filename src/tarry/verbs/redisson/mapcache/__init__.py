"""The map cache shared with Java: its verbs as requests and flows.

    put ─▶ entries ◀─ get            each entry: value, idle time
             │ ttl, idle time: timeouts, idles
             ▼ when the first of them is over: invisible; evict removes it and publishes an event

context          what the verbs of a map need: names, keys, codecs
redisson_layout  requests for Redisson's RMapCache, in bytes
native_layout    the same for RMapCacheNative, whose fields expire by themselves
verbs            the verbs as handles call them
load             a value that one process loads for all
eviction         removing expired entries; Redisson's rule for when; a map that a client evicts from
models           results
"""
