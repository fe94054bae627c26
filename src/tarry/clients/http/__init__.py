"""HTTP: what a service and its clients say to each other, and the clients.

    wire                     the words of requests and answers; the service has no others
    verbs                    what each handle says, as requests: the same names as in the library
    sync, aio                HTTPClient and AsyncHTTPClient
    sync_engine, aio_engine  which perform the requests

A topic of theirs is ``tarry.Topic`` itself, a queue ``tarry.DelayedQueue``: its verbs say HTTP requests where others say
scripts, and its engine sends them. What cannot be over HTTP is refused in words (verbs/unsupported.py).
"""
