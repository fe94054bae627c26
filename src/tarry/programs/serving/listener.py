"""A listening socket: who reaches its address, and how many connections it can have."""

from __future__ import annotations

import ipaddress
import math
import socket

from tarry.errors import BadInput

SPARE_FILES = 128
"""File descriptors kept free for connections to servers, and for connections accepted but not yet counted; at most a quarter."""
SEND_BUFFER = 256 << 10
"""How many bytes that a client has not read the kernel keeps for a connection; by default some megabytes, and for pipelined requests
that many answers are made at once."""
GRACE_S = 10.0
"""How long requests may still run after the port is closed."""
WITHOUT_TOKENS = (
    "{host} can be reached from other machines, and no token exists in {namespaces}: anybody could read, add and delete "
    "jobs. Create one (tarry token create --scope produce --scope consume), or give --without-tokens."
)


def open_listener(host: str, port: int) -> socket.socket:
    """Opens a socket that listens. Raises ``BadInput``."""
    try:
        family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, number)
    except OSError as fault:
        raise BadInput(f"host: {host!r} is not an address of this machine: {fault}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # connections inherit it
        listener.bind(place)
        listener.listen(2048)
    except OSError as fault:
        listener.close()
        raise BadInput(
            f"port: {port} on {host} cannot be opened: {fault.strerror}. Choose another with --port."
        ) from None
    return listener


def is_loopback(host: str) -> bool:
    """Whether the host can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def max_file_number() -> float:
    """The first file number at which a connection is one too many."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return math.inf
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if limit == resource.RLIM_INFINITY else limit - min(SPARE_FILES, limit // 4)
