"""The protocol of HTTP, which the service and its clients share: models of requests and answers. For each thing there is a module of requests,
and one of answers."""
