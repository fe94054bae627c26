"""What each role of docs/how-to/secure-the-server.md may run, worked out from the scripts: the page must say just that."""

from __future__ import annotations

import re
from pathlib import Path

from tarry.idea.scripts import Script
from tarry.verbs import tokens, workers
from tarry.verbs.delayed import finding, leaving, moving, offering, places, taking, telling
from tarry.verbs.guarded import scripted
from tarry.verbs.jobs import holding, looking, minding, parting, putting, ruling, settling, surveying
from tarry.verbs.jobs import leaving as departing
from tarry.verbs.jobs import taking as popping
from tarry.verbs.locks import asking
from tarry.verbs.mapcache import evicting, keeping, layout, loading, reading
from tarry.verbs.schedules import firing
from tarry.verbs.schedules import keeping as schedules
from tarry.verbs.schedules import leaving as planning

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "secure-the-server.md"
CONNECTED = "client|setname info config|get eval evalsha ping wait cluster|slots"
WAITED = "blpop lpop llen client|id client|unblock client|tracking ssubscribe sunsubscribe"
TOPICS = "sadd smembers zcount"
SHARED = (
    "hincrbyfloat zincrby subscribe unsubscribe ssubscribe sunsubscribe publish spublish pubsub|numsub watch unwatch "
    "multi exec scan memory|usage expire lindex llen lpos lpush lrange rpush unlink zcard zscore hgetall hlen"
)
NATIVE = {"hpexpire", "hpersist", "hpttl"}

producers = (putting, minding, looking, surveying, parting, schedules)
consumers = (*producers, popping, holding, settling, ruling, departing, planning, workers, firing)
everybody = (
    *consumers, tokens, finding, leaving, moving, offering, places, taking, telling, scripted, asking, evicting, keeping,
    layout, loading, reading,
)  # fmt: skip


def commands(modules: tuple[object, ...], *plain: str) -> set[str]:
    """Of the scripts in some modules, and of what goes without a script."""
    scripts = [found for module in modules for found in vars(module).values() if isinstance(found, Script)]
    run = {name.decode().lower() for script in scripts for name in script.commands}
    return (run | set(" ".join(plain).split())) - NATIVE


ROLES = {
    "producer": commands(producers, CONNECTED, TOPICS),
    "consumer": commands(consumers, CONNECTED, TOPICS, WAITED),
    "all": commands(everybody, CONNECTED, TOPICS, WAITED, SHARED),
}


def rules() -> dict[str, list[str]]:
    """The page's lines, word by word."""
    return {name: rest.split() for name, rest in re.findall(r"^user (\w+) (.*)$", PAGE.read_text(), re.M)}


def written(page: str) -> str:
    """The page with the commands as they are now."""
    for role, names in ROLES.items():
        said = " ".join(f"+{name}" for name in sorted(names))
        page = re.sub(rf"(?m)^(user {role} .*?-@all).*$", lambda found, said=said: f"{found[1]} {said}", page)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
