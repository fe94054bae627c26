"""`tools/rename.py` on a small tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow

TREE = {
    "tools/blocking.py": """
        from pathlib import Path

        MADE = {Path("src/shop/blocking.py"): Path("src/shop/awaited.py")}
        NAMES = {}
        if __name__ == "__main__":
            for made, source in MADE.items():
                text = source.read_text()
                for word in ("async ", "await ", "Async"):
                    text = text.replace(word, "")
                made.write_text(text)
        """,
    "src/shop/models.py": """
        from dataclasses import dataclass
        from typing import Protocol


        @dataclass
        class Entry:
            \"\"\"An `Entry`; Entry is a word, too.\"\"\"

            id: str
            fresh: bool


        class EntryOfCart(Entry):
            \"\"\"See EntryOfCart.\"\"\"


        class HasPut(Protocol):
            id: str

            def put(self, n: int) -> Entry: ...


        class Other:
            id: str
            fresh = 1

            def put(self, other: int) -> None: ...
        """,
    "src/shop/awaited.py": """
        from shop.models import Entry


        class AsyncCart:
            id = "é"

            async def put(self, n: int) -> Entry:
                found = [n]
                return Entry(self.id, fresh=bool(found))

            async def put_twice(self) -> None:
                await self.put(n=2)


        class AsyncLoudCart(AsyncCart):
            async def put(self, n: int) -> Entry:
                return await super().put(n)
        """,
    "tests/test_cart.py": """
        from shop.awaited import AsyncCart
        from shop.blocking import Cart, LoudCart
        from shop.models import Entry, EntryOfCart, HasPut, Other

        NAMES = {"shop.models.Entry": Entry, "fresh": 1, "org.java.Entry": 2, "Entry": 3}


        def use(cart: HasPut, other: Other, untyped, mine):
            "é"; print("é", cart.put(n=1).fresh, other.fresh, untyped.fresh, mine.fresh)
            return LoudCart().put(n=3), Cart.put, AsyncCart.put
        """,
    "docs/cart.md": """
        An Entry is `fresh`, an `Entry` a class, EntryOfCart, too.

        1. Put:

           ```python
           from shop.blocking import Cart

           print("é", Cart().put(n=1).fresh)  # Entry
           ```
        """,
    "templates/cart.html": "<p>{{ entry.fresh }}</p>\n",
}
TABLE = """
[[rename]]
kind = "member"
path = "src/shop/models.py"
old = "Entry.fresh"
new = "is_new"
words = [["entry[.]fresh", "entry.is_new", "*.html"]]
untyped = [["mine", "tests/*"]]
[[rename]]
kind = "parameter"
path = "src/shop/blocking.py"
old = "Cart.put.n"
new = "limit"
[[rename]]
kind = "local"
path = "src/shop/awaited.py"
old = "AsyncCart.put.found"
new = "amounts"
[[rename]]
kind = "member"
path = "src/shop/awaited.py"
old = "AsyncCart.put"
new = "add"
[[rename]]
kind = "class"
path = "src/shop/blocking.py"
old = "Cart"
new = "Basket"
[[rename]]
kind = "class"
path = "src/shop/models.py"
old = "Entry"
new = "Line"
[[rename]]
kind = "class"
path = "src/shop/models.py"
old = "EntryOfCart"
new = "LineOfBasket"
"""


def flush(text: str) -> str:
    """The text without the indent of the first line."""
    lines = text.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines).rstrip() + "\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shop")
    for path, text in TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(flush(text))
    for name in ("rename", "definitions", "language_server", "code_in_text"):
        shutil.copy(ROOT / "tools" / f"{name}.py", root / "tools")
    subprocess.run([sys.executable, "tools/blocking.py"], cwd=root, check=True)
    (root / "table.toml").write_text(TABLE)
    commit(root)
    return root


def commit(root: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    (root / ".gitignore").write_text("build\n__pycache__\n.ruff_cache\n")
    for words in (["init", "-q"], ["add", "--all"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], cwd=root, check=True)


def rename(root: Path, table: str, *more: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "tools/rename.py", table, *more]
    return subprocess.run(call, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def renamed(tree: Path) -> tuple[Path, str]:
    checked = rename(tree, "table.toml", "--check")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert not subprocess.run(["git", "status", "--porcelain"], cwd=tree, capture_output=True, check=True).stdout
    done = rename(tree, "table.toml")
    assert (done.returncode, done.stderr) == (0, "")
    return tree, done.stdout


def test_a_field_follows_in_the_keywords_of_its_class(renamed: tuple[Path, str]) -> None:
    root, _ = renamed
    assert "    is_new: bool\n" in (root / "src/shop/models.py").read_text()
    assert (
        "class Other:\n    id: str\n    fresh = 1\n\n    def put(self, other"
        in (root / "src/shop/models.py").read_text()
    )
    assert "return Line(self.id, is_new=bool(amounts))" in (root / "src/shop/awaited.py").read_text()


def test_a_method_is_renamed_in_subclasses_protocols_and_both_clients(renamed: tuple[Path, str]) -> None:
    root, _ = renamed
    assert "    def add(self, limit: int) -> Line: ..." in (root / "src/shop/models.py").read_text()
    awaited, blocking = ((root / "src/shop" / f"{name}.py").read_text() for name in ("awaited", "blocking"))
    assert awaited.count("async def add(self, limit: int) -> Line:") == 2
    assert "await super().add(limit)" in awaited
    assert "class AsyncBasket:" in awaited
    assert "class AsyncLoudCart(AsyncBasket):" in awaited
    assert "await self.add(limit=2)" in awaited
    assert "class LoudCart(Basket):" in blocking
    assert "self.add(limit=2)" in blocking


def test_uses_are_renamed_by_their_types(renamed: tuple[Path, str]) -> None:
    text = (renamed[0] / "tests/test_cart.py").read_text()
    assert 'print("é", cart.add(limit=1).is_new, other.fresh, untyped.fresh, mine.is_new)' in text
    assert "return LoudCart().add(limit=3), Basket.add, AsyncBasket.add" in text


def test_a_class_is_renamed_as_a_word_where_it_can_be_nothing_else(renamed: tuple[Path, str]) -> None:
    root, _ = renamed
    assert '"""A `Line`; Entry is a word, too."""'.replace("A ", "An ") in (root / "src/shop/models.py").read_text()
    assert '"""See LineOfBasket."""' in (root / "src/shop/models.py").read_text()
    assert (
        '{"shop.models.Line": Line, "fresh": 1, "org.java.Entry": 2, "Entry": 3}'
        in (root / "tests/test_cart.py").read_text()
    )
    page = (root / "docs/cart.md").read_text()
    assert page.startswith("An Entry is `fresh`, an `Line` a class, LineOfBasket, too.\n")


def test_python_on_a_page_is_renamed_by_its_types(renamed: tuple[Path, str]) -> None:
    page = (renamed[0] / "docs/cart.md").read_text()
    assert '   from shop.blocking import Basket\n\n   print("é", Basket().add(limit=1).is_new)  # Line\n' in page


def test_what_the_server_does_not_see_is_listed(renamed: tuple[Path, str]) -> None:
    root, said = renamed
    assert "  left: fresh in uses without a type\n    tests/test_cart.py:9 untyped\n" in said
    assert "  left: fresh in strings\n    tests/test_cart.py:5\n" in said
    assert "  left: fresh in pages\n    docs/cart.md:1\n" in said
    assert (root / "templates/cart.html").read_text() == "<p>{{ entry.is_new }}</p>\n"


def test_a_name_that_is_taken_is_refused_and_nothing_changes(tree: Path, renamed: tuple[Path, str]) -> None:
    commit(tree)
    taken = '[[rename]]\nkind = "member"\npath = "src/shop/models.py"\nold = "Line.is_new"\nnew = "id"\n'
    fine = taken.replace("Line.is_new", "Other.fresh").replace('"id"', '"stale"')
    (tree / "taken.toml").write_text(fine + taken)
    done = rename(tree, "taken.toml")
    assert done.returncode == 1
    assert done.stderr == "Line (src/shop/models.py) has id already\n"
    assert "    fresh = 1\n" in (tree / "src/shop/models.py").read_text()
