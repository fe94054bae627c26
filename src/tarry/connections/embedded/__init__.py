"""The embedded server: a real Valkey, started by the first process that needs it and shared by the others.

    launch    find a server's program, start it, stop it          (also used by the tests, with its own options)
    share     join(folder) → Share: the one server of that folder, started if need be, alive while somebody uses it
    keeper    the small process between: parent of the server, knows when the last user has left
    marks     the locks, the bell and the address in the server's folder
    runtime   where the socket lives: a short path in a folder that is ours alone
    wire      PING, INFO and SHUTDOWN without a driver

Rules: a process is stopped by its pid only, and only one that was started here; nothing here listens on a network.
"""
