"""Where the embedded server's socket lives: a short path, in a folder that is ours alone.

    $XDG_RUNTIME_DIR/tarry/9f86d081884c7d65.sock        where the system gives each user such a folder
    $TMPDIR/tarry-501/9f86d081884c7d65.sock             elsewhere; /tmp/tarry-501/… when that is too long

A socket's path has at most 107 bytes (103 on macOS), a data folder may have a thousand: so the name is a hash of it.

Rules: the folder is a real folder (not a link), belongs to our uid and has mode 700, or it is refused: whoever could
write there could put a server of his own in our way.
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

#: what fits into sockaddr_un with its closing zero
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107


def socket_for(folder: Path) -> Path:
    """The socket of the server that keeps ``folder``. Makes the folder around it. Raises ``ServerUnfit``.

    A folder that was deleted and made anew is another one: its inode goes into the name, so that a server which
    still runs on the deleted one is in nobody's way.
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
    """Refuse a folder that others could have made, or could write to. Raises ``ServerUnfit``."""
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
        # after `su` the variable names another user's folder: that is not an attack, only not for us
        if base.is_dir() and base.stat().st_uid == os.geteuid():
            yield base / "tarry"
    own = f"tarry-{os.geteuid()}"
    yield Path(tempfile.gettempdir()) / own
    yield Path("/tmp") / own  # noqa: S108 - verified above before anything is trusted to it
