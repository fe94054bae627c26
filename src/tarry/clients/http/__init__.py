"""The clients of a service, blocking and awaited.

    verbs                             each handle's verbs as requests: the same names as in the library
    blocking, awaited                 HTTPClient and AsyncHTTPClient
    blocking_engine, awaited_engine   perform the requests

A topic of theirs is ``tarry.Topic`` itself, a queue ``tarry.redisson.DelayedQueue``: its verbs return HTTP requests where others
return script calls, and its engine sends them. Verbs that do not exist over HTTP raise an error (verbs/unsupported.py).
"""
