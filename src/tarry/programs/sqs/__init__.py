"""Amazon SQS's API, mounted in the service at ``/sqs``. It speaks the JSON protocol, and the query protocol of older clients. Only ``--dialect sqs``
imports it.

request ─▶ routes (JSON) or query_protocol ─▶ signature ─▶ operations ─▶ queues, messages ─▶ verbs of topics
"""
