"""The service: topics, jobs and shared queues over HTTP, for every language.

    request ─▶ door ─▶ row of the table ─▶ gate ─▶ handler ─▶ tarry.AsyncClient
               │       method, path         │      one verb      one for each namespace
               │                            token, scope, limits
               └─ drains, measures, turns errors into problem details

    table      one row a route: method, path, scopes, models, handler, examples; rows.py names the modules that hold rows
    door       the ASGI application: finds the row, answers
    exchange   one request while it is answered: its words, its client, whether that is still there
    serving    a process of it: uvicorn, signals, what it says

Rules: a route is a row, and OpenAPI, the reference page, metrics and dispatch read the same rows; no handler waits for a
client that has gone; no body is ever logged. Nothing here is imported by the library: it needs ``tarry[http]``.
"""
