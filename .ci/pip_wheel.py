"""Fetch pip's own wheel from the index that pip would use, with only the standard library.

For a Python without `ensurepip`, as Debian's without the package python3-venv. Settings are pip's: `PIP_INDEX_URL` and the like,
then the files of `pip config`. What is fetched is checked against the index's SHA-256.
"""

import base64
import configparser
import hashlib
import os
import re
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

INDEX = "https://pypi.org/simple"
WHEEL = re.compile(r"pip-(\d+(?:\.\d+)*)-py3-none-any\.whl")
TIMEOUT_S = 30


class NotFetched(Exception):
    """Why there is no wheel."""


def settings():
    """pip's settings that say where packages come from; the environment comes before the user's file, that before the system's."""
    home = Path.home()
    xdg = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    places = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf", home / ".pip/pip.conf", Path(xdg) / "pip/pip.conf"]
    named = os.environ.get("PIP_CONFIG_FILE")
    found = {}
    if named != os.devnull:
        parser = configparser.RawConfigParser()
        parser.read([*places, *([named] if named else [])], encoding="utf-8")
        for section in ("global", "install"):
            if parser.has_section(section):
                found.update({name.replace("_", "-"): value for name, value in parser.items(section)})
    for name in ("index-url", "extra-index-url", "cert", "proxy"):
        value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
        if value:
            found[name] = value
    return found


class Links(HTMLParser):
    """The links of an index's page: name, address, and the oldest Python."""

    def __init__(self, page):
        super().__init__()
        self.page = page
        self.base = page
        self.found = []

    def handle_starttag(self, tag, attributes):
        """Keep a link to a wheel of pip."""
        given = dict(attributes)
        if tag == "base" and given.get("href"):
            self.base = urllib.parse.urljoin(self.page, given["href"])
        if tag != "a" or not given.get("href") or "data-yanked" in given:
            return
        address = urllib.parse.urljoin(self.base, given["href"])
        wheel = WHEEL.fullmatch(urllib.parse.urlsplit(address).path.rpartition("/")[2])
        oldest = re.search(r">=\s*(\d+)\.(\d+)", given.get("data-requires-python") or "")
        if wheel and (oldest is None or tuple(map(int, oldest.groups())) <= sys.version_info[:2]):
            self.found.append((tuple(map(int, wheel[1].split("."))), address))


def opener(given):
    """Opens addresses as pip would: its certificates, its proxy."""
    handlers = [urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=given.get("cert")))]
    if given.get("proxy"):
        handlers.append(urllib.request.ProxyHandler({"http": given["proxy"], "https": given["proxy"]}))
    return urllib.request.build_opener(*handlers)


def read(open_with, address):
    """The content; a user and a password in the address become a header."""
    parts = urllib.parse.urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    plain = urllib.parse.urlunsplit((*parts[:1], host, *parts[2:4], ""))
    request = urllib.request.Request(plain)  # noqa: S310 - an index's address from pip's settings; pip opens file: too
    request.add_header("Accept", "text/html, */*;q=0.1")
    if at:
        named = urllib.parse.unquote(user).encode()
        request.add_header("Authorization", "Basic " + base64.b64encode(named).decode())
    with open_with.open(request, timeout=TIMEOUT_S) as answer:
        return answer.read()


def fetch(folder):
    """The path of the newest wheel, below ``folder``. Raises ``NotFetched``, with the reason."""
    given = settings()
    places = [*given.get("index-url", INDEX).split(), *given.get("extra-index-url", "").split()]
    reasons = []
    for place in places:
        page = place.rstrip("/") + "/pip/" + ("index.html" if place.startswith("file:") else "")
        try:
            open_with = opener(given)
            links = Links(page)
            links.feed(read(open_with, page).decode("utf-8", "replace"))
            if not links.found:
                reasons.append(hidden(place) + " has no wheel of pip for this Python")
                continue
            address = max(links.found)[1]
            content = read(open_with, address)
        except (OSError, ValueError) as fault:
            reasons.append(f"{hidden(place)}: {getattr(fault, 'reason', None) or fault}")
            continue
        parts = urllib.parse.urlsplit(address)
        wanted = urllib.parse.parse_qs(parts.fragment).get("sha256")
        if wanted and hashlib.sha256(content).hexdigest() != wanted[0]:
            reasons.append(hidden(place) + " sent a wheel that is not the one it names (SHA-256)")
            continue
        wheel = Path(folder) / parts.path.rpartition("/")[2]
        wheel.write_bytes(content)
        return wheel
    raise NotFetched("; ".join(reasons))


def hidden(address):
    """An address without its password."""
    parts = urllib.parse.urlsplit(address)
    return urllib.parse.urlunsplit((*parts[:1], parts.netloc.rpartition("@")[2], *parts[2:]))
