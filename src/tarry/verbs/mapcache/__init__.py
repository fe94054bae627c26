"""The map cache that is shared with Java applications on Redisson: what its verbs want from the server.

    put ─▶ entries ◀─ get            each entry: value, idle time
             │ ttl, idle time: timeouts, idles
             ▼ when the first of them is over: nobody sees it, evict takes it out and tells

desk       a map as its verbs see it: names, codecs, layout
layout     what is asked of the server for Redisson's RMapCache, in bytes
native     the same for RMapCacheNative, whose fields expire by themselves
face       the verbs as a user calls them
loading    a value that one process loads for all
evicting   expired entries out; Redisson's rule for when to look
keeping    who evicts which map when
shapes     what is answered
"""
