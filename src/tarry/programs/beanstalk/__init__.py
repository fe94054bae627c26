"""The server for beanstalkd's clients, which work with tarry as they are: ``tarry serve --beanstalk 127.0.0.1:11300``.

    bytes ──▶ connection.py ──▶ commands.py ──▶ session.py ──▶ tarry's verbs
              lines, bodies     the grammar     the rules      a tube is a topic
                                                tubes.py       numbers for ids, and back

Of one connection, a session has the tube in use, the watched tubes and the reserved jobs. Of the jobs, everything is in tarry:
priority and counts in their headers. The only other state on the server is the last number that was given to a job.
"""
