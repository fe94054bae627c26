"""The service: topics, jobs and shared queues over HTTP, for every language.

    request ─▶ app ─▶ route ─▶ authorizer ─▶ handler ─▶ tarry.AsyncClient
               │      method,  token, scope,   one verb    one for each namespace
               │      path     limits
               └─ drains, counts, turns errors into problem details

    routes         the handlers, by subject
    app            the ASGI application: finds the route, sends the response
    http_server    a process of the service: uvicorn, signals

Rules: OpenAPI, the reference page, metrics and dispatch all read the same routes. No handler waits for a client that has
disconnected. No body is ever logged. The library imports nothing of this package, which needs ``tarry[http]``.
"""
