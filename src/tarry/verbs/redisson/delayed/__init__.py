"""The delayed queue shared with Java: its verbs as requests and flows.

offer ─▶ order, timeouts ──when due: transfer──▶ ready ─▶ poll        packed elements left, payloads right

context    what the verbs of a queue need: keys, codec, format
offers     adding elements
elements   packed elements that are not due yet: poll, find, remove, read
transfer   moving due elements, also very many and by which client; taking ready ones, setting unreadable ones aside
migration  moving elements into a topic
learnt_format  the format that reading has taught, said once in the log
stats      the numbers of a queue, and its metrics
verbs      the verbs as handles call them: values are encoded and decoded here
"""
