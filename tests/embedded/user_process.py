"""A process that joins an embedded server, and says what it saw: ``user_process.py FOLDER LINGER_S THEN``."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

from tarry.connections.embedded import folder_files, plain_client
from tarry.connections.embedded.shared_server import join_server


def main(folder: str, linger_s: str, then: str) -> None:
    if then == "come and go":
        for _ in range(15):
            time.sleep(random.uniform(0, 0.03))  # the other one and the supervisor are to be met at every stage
            with join_server(Path(folder), linger_s=float(linger_s)):
                plain_client.call_once(folder_files.read_address(f"{folder}/{folder_files.ADDRESS}"), "INCR", "visits")
    share = join_server(Path(folder), linger_s=float(linger_s))
    told = {"url": share.url, "started": share.started, "pid": os.getpid()}
    if then == "fork":
        child = os.fork()
        if child:
            print(json.dumps(told | {"child": child}), flush=True)
            os._exit(0)
        sys.stdin.read()
        os._exit(0)
    if then == "child leaves":
        child = os.fork()
        if not child:
            share.close()
            os._exit(0)
        os.waitpid(child, 0)
    print(json.dumps(told), flush=True)
    sys.stdin.read()
    share.close()


main(*sys.argv[1:])
