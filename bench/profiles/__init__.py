"""``python -m bench.profiles``: what an add, a pop and a finish consist of, counted and not timed.

    callgrind   instructions of a process, by function and by library      (Debian's valgrind)
    bytecodes   bytecodes of a process, by layer of the code               (Python's own)

    bench.profiles ──starts──▶ the server, a client, a worker or the service, under one of the two
                   ──counts──▶ N operations ──▶ docs/evidence/performance.md, between its markers

Counts do not depend on how busy the machine is. They leave out the kernel, and what a miss of a processor's cache costs.
"""
