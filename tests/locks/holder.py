"""A process that holds a lock. It reads a command a line, and prints an answer a line.

python holder.py KIND ADDRESS NAME LEASE       acquires; says "held TOKEN" or "none"
check | release | push VALUE …                 says "ok", or the error's code
"""

from __future__ import annotations

import sys
from typing import Any

import tarry


def client_of(kind: str, address: str) -> Any:
    if kind == "redis":
        return tarry.Client(address, patience=2)
    from tarry import zookeeper

    return zookeeper.Client(address, namespace="tests", session_timeout=float(sys.argv[5]))


def main() -> None:
    kind, address, name, lease = sys.argv[1:5]
    client = client_of(kind, address)
    grant = client.lock(name).acquire(wait=20, lease=None if lease == "none" else float(lease))
    print(f"held {grant.token}" if grant else "none", flush=True)
    grant.on_lost(lambda: print(f"lost {grant.lost.is_set()}", flush=True))
    for line in sys.stdin:
        try:
            getattr(grant, line.strip())()
            print("ok", flush=True)
        except tarry.TarryError as fault:
            print(fault.code, flush=True)


if __name__ == "__main__":
    main()
