"""The floor that programs share: requests and their routes, clients, tokens, the listener, processes, the conditions of topics. It knows
none of them.

clients          a client for each namespace
authorization    which request may do what: tokens, scopes, limits
problems         errors for programs: each has a code and a status
conditions       what is wrong with a topic, worst first, in sentences
listener         the listening socket
processes        several processes on one port, and their parent
host             a service, as those know it that serve beside it
router           a route: method, path, scopes, models, handler, example
request          one HTTP request: query, body, client, and whether that is still connected
mounts           what a program adds to a service: routes, and pages for browsers
"""
