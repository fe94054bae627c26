"""The HTTP APIs of three other delay queues, mounted in the service for their clients as they are. Each has a place of its own,
and is off unless ``--dialect`` names it.

    delay_controller   Youzan's delay queue in Spring Boot              /delay/add /delay/pop /delay/finish /delay/delete
    delay_queue        the Go implementation of Youzan's design         /push /pop /finish /delete /get
    delayed_message    a Spring Boot controller on Redisson             /delayed/message

None of them has receipts: finish and delete act on the job in whatever state it is. So a worker that finishes late finishes
the job that another one works on. Use tarry's own API where that matters.
"""
