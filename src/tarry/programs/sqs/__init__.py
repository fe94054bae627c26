"""Amazon SQS: the JSON protocol, and the query protocol of older clients, on ``/sqs``. Only ``--dialect sqs`` imports it.

request ─▶ routes (JSON) or query_protocol ─▶ signature ─▶ operations ─▶ queues, messages ─▶ verbs of topics
"""
