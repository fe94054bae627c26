"""The path of the embedded server's socket: short, in a private folder.

    $XDG_RUNTIME_DIR/tarry/9f86d081884c7d65.sock        if the system has such a folder for each user
    $TMPDIR/tarry-501/9f86d081884c7d65.sock             elsewhere; /tmp/tarry-501/… if that is too long

A socket's path has at most 107 bytes (103 on macOS), a data folder's may have a thousand: so the name is a hash of it.

Rules: the folder must be a real folder (not a link), belong to this uid and have mode 700. Otherwise another user could put
a server of their own there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tarry.errors import ServerUnfit

#: the size of sockaddr_un's path without its closing zero
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107


def socket_for(folder: Path) -> Path:
    """The socket of the server of ``folder``. Creates the socket's own folder. Raises ``ServerUnfit``.

    The inode is part of the name: a folder that was deleted and created again has another socket, so that a server which
    still runs in the deleted one does no harm.
    """
    about = folder.stat()
    seed = f"{folder}\0{about.st_dev}\0{about.st_ino}"
    name = hashlib.sha256(os.fsencode(seed)).hexdigest()[:16] + ".sock"
    troubles: list[str] = []
    for home in _candidates():
        if len(os.fsencode(home / name)) > SOCKET_PATH_BYTES:
            troubles.append(f"{home} is too long for a socket")
            continue
        try:
            home.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            troubles.append(str(error))
            continue
        check_private(home)
        return home / name
    raise ServerUnfit(
        f"There is no place for the embedded server's socket: {'; '.join(troubles)}. "
        "Set XDG_RUNTIME_DIR to a folder of your own with a short path (mode 700), or set TARRY_URL."
    )


def check_private(folder: Path) -> None:
    """Refuses a folder that others may have created, or may write to. Raises ``ServerUnfit``."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        fault = "it is not a folder"
    elif about.st_uid != os.geteuid():
        fault = f"it belongs to user {about.st_uid}, not to you ({os.geteuid()})"
    elif stat.S_IMODE(about.st_mode) != 0o700:
        fault = f"its mode is {stat.S_IMODE(about.st_mode):o}, not 700: others may enter it"
    else:
        return
    raise ServerUnfit(
        f"The folder {folder} cannot hold the embedded server's socket: {fault}. "
        f"If it is yours, `chmod 700 {folder}` or remove it; if not, set XDG_RUNTIME_DIR to a folder of your own."
    )


def _candidates() -> Iterator[Path]:
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if given.startswith("/"):
        base = Path(given)
        # after `su` the variable still names the other user's folder
        if base.is_dir() and base.stat().st_uid == os.geteuid():
            yield base / "tarry"
    own = f"tarry-{os.geteuid()}"
    yield Path(tempfile.gettempdir()) / own
    yield Path("/tmp") / own  # noqa: S108 - check_private verifies it before use
