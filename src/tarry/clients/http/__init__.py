"""HTTP: what a service and its clients say to each other, and the clients.

    models, answers, topic_answers, bodies    the words of requests and answers; the service has no others
    verbs                                     a topic's verbs as requests: the same names as in the library
    sync, aio                                 HTTPClient and AsyncHTTPClient, which perform them

A topic of theirs is ``tarry.Topic`` itself: its verbs say HTTP requests where others say scripts, and its engine sends them.
"""
