"""The delayed queue that is shared with Java applications on Redisson: what its verbs want from the server.

offer ─▶ order, timeouts ──when due: transfer──▶ ready ─▶ take, poll        packed elements left, payloads right

desk       a queue as its verbs see it: keys, codec, format
offering   elements in
finding    elements out, by place or by value; looking at them
moving     the transfer, what is ready, and what is set aside
taking     values of what was taken
keeping    who moves which queue when
telling    how many are where, and what of it is a metric
face       the verbs as a user calls them
"""
