"""The embedded server: a real Valkey that processes start when they need it, and share.

    process        find a server's program, start it, stop it          (also used by the tests, with their own options)
    shared_server  join_server(folder) → SharedServer: the one server of that folder, which runs while it has users
    supervisor     a small process, the server's parent: restarts it, and stops it when the last user has left
    folder_files   the locks, the wakeup pipe and the address in the server's folder
    socket_path    the path of the socket: short, in a private folder
    plain_client   PING, INFO and SHUTDOWN without a driver

Rules: a process is stopped by its pid only, and only if it was started here; nothing here listens on a network.
"""
