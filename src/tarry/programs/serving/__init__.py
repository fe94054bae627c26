"""The floor that programs share: the conditions of topics; clients, tokens, the listener, processes. It knows neither of them.

clients          a client for each namespace
authorization    which request may do what: tokens, scopes, limits
problems         errors for programs: each has a code and a status
conditions       what is wrong with a topic, worst first, in sentences
listener         the listening socket
processes        several processes on one port, and their parent
host             a service, as those know it that serve beside it
"""
