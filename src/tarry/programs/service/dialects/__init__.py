"""Dialects: what clients of other systems say, understood as it is, each in a namespace of its own.

    delay_controller   article 001: Spring Boot after Youzan's design   /delay/add /delay/pop /delay/finish /delay/delete
    delay_queue        the Go implementation of Youzan's design         /push /pop /finish /delete /get
    delayed_message    article 004: Spring Boot on Redisson             /delayed/message

None of them knows receipts: finish and delete act on the job as it is now, so a worker that finishes late ends the run of
another. Use the API where that matters.
"""
