"""The public names of tarry's modules with their signatures, for ``docs/interface.txt``.

A module directly below ``tarry`` is public, unless it is a floor of the library (``FLOORS``). Its public names are those of
``__all__``, else what ``dir()`` of a package has (``tarry``), else the functions and classes that it defines. Of a class, every member
without an underscore is public, inherited ones too, unless a public base has them, or it is a word of another library. Types are written as the source writes them.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import tomllib
import types
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_overloads

import msgspec

import tarry
from tarry.values.other_words import OtherWord, for_modules

ROOT = Path(__file__).resolve().parent.parent
FLOORS = set("__main__ clients connections core internal lua programs values verbs wire worker".split())
"""The inside: the layers below the public modules."""
CONSTRUCTORS = ("__init__", "__new__")
NO_OPERATORS = set(
    "__class_getitem__ __del__ __delattr__ __dir__ __getattr__ __getattribute__ __getstate__ __hash__ __init__ __init_subclass__ "
    "__new__ __post_init__ __reduce__ __reduce_ex__ __repr__ __setattr__ __setstate__ __subclasshook__ __str__".split()
)
"""Methods that users do not spell with an operator or a statement."""
OF_PROGRAMS = ("engine", "inner", "registered", "verbs")
"""What handles and workers have for tarry's own modules: no app takes the engine (tests/names/test_border.py)."""
MADE = set("__annotate_func__ __eq__ __match_args__ __replace__".split())
"""What Python makes for a class, version by version."""


def names() -> Iterator[str]:
    """A line for each public name and each public member."""
    shown: dict[int, str] = {}
    lines: list[tuple[str, str]] = []
    for module in public_modules():
        for name in names_of(module):
            place = f"{module.__name__}.{name}"
            lines += lines_of_name(place, module, name, shown)
    return (line for _, line in sorted(lines))


def public_modules() -> list[types.ModuleType]:
    """``tarry`` first, so that a name of two modules is shown where users import it."""
    found = sorted(one.name for one in pkgutil.iter_modules(tarry.__path__) if one.name not in FLOORS)
    return [tarry, *(import_module(f"tarry.{name}") for name in found)]


def names_of(module: types.ModuleType) -> list[str]:
    """The public names of a module, sorted."""
    if hasattr(module, "__all__"):
        return sorted([*module.__all__, *(["__version__"] if hasattr(module, "__version__") else [])])
    if hasattr(module, "__dir__") and "__dir__" in vars(module):
        return sorted(name for name in dir(module) if name == "__version__" or not name.startswith("_"))
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return sorted(name for name, value in own.items() if not name.startswith("_") and callable(value))


def lines_of_name(place: str, module: types.ModuleType, name: str, shown: dict[int, str]) -> Iterator[tuple[str, str]]:
    """The lines of a name, with what they are sorted by."""
    if is_lazy(module, name):
        yield place, f"{place}: {declared_types(module)[name]}"
        return
    value = getattr(module, name)
    if isinstance(value, (type, types.FunctionType)):
        if id(value) in shown:
            yield place, f"{place} = {shown[id(value)]}"
            return
        shown[id(value)] = place
    if isinstance(value, type):
        yield from _class(place, value)
    elif inspect.isfunction(value):
        yield from lines_of_function(place, value)
    elif inspect.ismodule(value):
        yield place, f"{place}: module"
    elif isinstance(value, (str, bytes, int, float)):
        yield place, f"{place}: {type(value).__name__}" if name.startswith("__") else f"{place} = {value!r}"
    else:
        yield place, f"{place} = {type_text(value)}"


def _class(place: str, kind: type) -> Iterator[tuple[str, str]]:
    bases = ", ".join(bases_of(kind))
    yield place, f"class {place}" + (f"({bases})" if bases else "")
    constructor = constructor_of(kind)
    if constructor is not None:
        yield f"{place}(", f"{place}{constructor}"
    for name, lines in sorted(members_of(kind).items()):
        for line in lines:
            yield f"{place}.{name}", line.replace("@", f"{place}.{name}", 1)


def bases_of(kind: type) -> Iterator[str]:
    """Public bases and those of other libraries; an inner one is replaced by its own."""
    for base in kind.__bases__:
        if base in _public_classes():
            yield _public_classes()[base]
        elif base.__module__.partition(".")[0] == "tarry":
            yield from bases_of(base)
        elif base is not object and base.__name__ not in ("Generic", "_StructMixin"):
            yield base.__name__


@cache
def _public_classes() -> dict[type, str]:
    """The classes of the public modules, each with the first name that it has."""
    found: dict[type, str] = {}
    for module in public_modules():
        for name in names_of(module):
            value = None if is_lazy(module, name) else getattr(module, name)
            if isinstance(value, type):
                found.setdefault(value, f"{module.__name__}.{name}")
    return found


def ancestry_of(kind: type) -> list[type]:
    """The class and its inner bases: those whose members no other public class shows."""
    taken: set[type] = set()
    for base in kind.__mro__[1:]:
        if base in _public_classes():
            taken.update(base.__mro__)
    return [one for one in kind.__mro__ if one not in taken and one.__module__.partition(".")[0] == "tarry"]


def constructor_of(kind: type) -> str | None:
    """Its parameters, if tarry defines it and users can call it: it needs no object of the inside."""
    made = is_dataclass(kind) or issubclass(kind, msgspec.Struct) or hasattr(kind, "_fields")
    home = next((one for one in kind.__mro__ if set(CONSTRUCTORS) & set(vars(one))), object)
    if getattr(kind, "_is_protocol", False) or not (made or home.__module__.partition(".")[0] == "tarry"):
        return None
    signature = inspect.signature(kind)
    if any(one.default is one.empty and _is_inner(one.annotation, home) for one in signature.parameters.values()):
        return None
    return signature_text(signature, answers=False, bound=True)


def _is_inner(annotation: object, home: type) -> bool:
    """Whether a type that is written there names a class of tarry that no public module has."""
    if not isinstance(annotation, str):
        return False
    imported = _imports(home.__module__)
    public = {name for module in public_modules() for name in names_of(module)}
    for name in re.findall(r"[A-Za-z_][\w.]*", annotation):
        first, _, rest = name.partition(".")
        module, original = imported.get(first, ("", ""))
        if module.partition(".")[0] != "tarry" or (rest or original) in public:
            continue
        holder: object = import_module(module)
        for part in (original, *filter(None, rest.split("."))):
            holder = getattr(holder, part, None) or import_module(f"{module}.{part}")
        if isinstance(holder, type):
            return True
    return False


@cache
def members_of(kind: type) -> dict[str, list[str]]:
    """The lines of each public member; ``@`` stands for its place. What is nearest to the class wins."""
    found: dict[str, list[str]] = {}
    hidden = for_modules(kind)
    for one in ancestry_of(kind):
        own: dict[str, list[str]] = {}
        for name, annotation in inspect.get_annotations(one).items():
            own[name] = [f"@: {type_text(annotation)}"]
        for name, value in vars(one).items():
            if isinstance(value, OtherWord):
                continue
            if name not in own or not isinstance(value, types.MemberDescriptorType):
                lines = _member(one, name, value)
                own[name] = own.get(name, lines) if lines and "@: " in lines[0] and name in own else lines
        for name, told in _set_in_constructor(one).items():
            own.setdefault(name, [f"@: {told}" if told else "@"])
            if told and own[name] == ["@"]:
                own[name] = [f"@: {told}"]
        for name, lines in own.items():
            if lines and _is_public(name) and name not in hidden:
                found.setdefault(name, lines)
    return found


def _is_public(name: str) -> bool:
    operator = name.startswith("__") and name.endswith("__") and name not in NO_OPERATORS
    return operator or not (name.startswith("_") or name in OF_PROGRAMS)


def _member(kind: type, name: str, value: object) -> list[str]:
    if name.startswith("_") and not inspect.isfunction(value):
        return []
    if isinstance(value, (property, cached_property)):
        get = value.fget if isinstance(value, property) else value.func
        told = type_text(inspect.signature(get).return_annotation) if get is not None else "object"
        return [
            f"@: {told}" + ("" if getattr(value, "fset", None) or isinstance(value, cached_property) else ", read-only")
        ]
    if isinstance(value, (classmethod, staticmethod)):
        word = type(value).__name__
        return [
            f"{word} {line}" for _, line in lines_of_function("@", value.__func__, bound=isinstance(value, classmethod))
        ]
    if inspect.isfunction(value):
        written_here = (
            value.__qualname__ == f"{kind.__qualname__}.{name}" and "<string>" not in value.__code__.co_filename
        )
        return (
            [line for _, line in lines_of_function("@", value, bound=True)]
            if written_here or not name.startswith("__")
            else []
        )
    if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
        return ["@"]
    if value is None or isinstance(value, (str, bytes, int, float, tuple)):
        return [f"@ = {value!r}"]
    return [f"@: {type(value).__name__}"] if not callable(value) else ["@(…)"]


def _set_in_constructor(kind: type) -> dict[str, str]:
    """What ``__init__`` sets as it is written, with its type if one is written or it is a parameter as it came."""
    node = next((one for one in ast.walk(tree_of(kind.__module__)) if _is_constructor(one, kind.__name__)), None)
    if not isinstance(node, ast.FunctionDef):
        return {}
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    kinds = {one.arg: type_text(ast.unparse(one.annotation)) for one in parameters if one.annotation is not None}
    found: dict[str, str] = {}
    for statement in ast.walk(node):
        if isinstance(statement, ast.AnnAssign):
            found[_of_self(statement.target)] = type_text(ast.unparse(statement.annotation))
        elif isinstance(statement, ast.Assign):
            told = kinds.get(statement.value.id, "") if isinstance(statement.value, ast.Name) else ""
            for target in statement.targets:
                for leaf in target.elts if isinstance(target, ast.Tuple) else [target]:
                    found[_of_self(leaf)] = found.get(_of_self(leaf)) or ("" if isinstance(target, ast.Tuple) else told)
    found.pop("", None)
    return found


def _of_self(target: ast.expr) -> str:
    """The attribute of ``self`` that is set, or nothing."""
    of_self = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return target.attr if of_self and isinstance(target, ast.Attribute) else ""


def _is_constructor(node: ast.AST, owner: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__" and getattr(node, "owner", "") == owner


@cache
def tree_of(module: str) -> ast.Module:
    """A module as it is written; each function of a class knows its class."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                one.owner = node.name  # type: ignore[attr-defined]  # for _is_constructor
    return tree


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Where the names of a module come from, also those that only type checkers import; its own classes too."""
    found = {node.name: (module, node.name) for node in tree_of(module).body if isinstance(node, ast.ClassDef)}
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {one.asname or one.name: (node.module, one.name) for one in node.names}
    return found


def is_lazy(module: types.ModuleType, name: str) -> bool:
    """Whether it is made at its first use, as ``tarry.django.worker`` is; its type is declared."""
    return name in declared_types(module)


@cache
def declared_types(module: types.ModuleType) -> dict[str, str]:
    """The names whose types a module declares without a value, also for type checkers only."""
    body = tree_of(module.__name__).body
    return {
        node.target.id: ast.unparse(node.annotation)
        for node in [*body, *(one for some in body if isinstance(some, ast.If) for one in some.body)]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is None
    }


def lines_of_function(place: str, function: Any, *, bound: bool = False) -> Iterator[tuple[str, str]]:
    """A line for each of its overloads, or one."""
    word = "async " if inspect.iscoroutinefunction(function) else ""
    for one in get_overloads(inspect.unwrap(function)) or [function]:
        yield place, f"{word}{place}{signature_text(inspect.signature(one), bound=bound, is_method=bound)}"


def signature_text(
    signature: inspect.Signature, *, answers: bool = True, bound: bool = False, is_method: bool = False
) -> str:
    """A signature as one reads it in the source, on one line."""
    parameters = list(signature.parameters.values())[is_method:]
    parts: list[str] = []
    for before, one in zip([None, *parameters], parameters, strict=False):
        if one.kind is one.KEYWORD_ONLY and (
            before is None or before.kind not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        ):
            parts.append("*")
        if before is not None and before.kind is one.POSITIONAL_ONLY and one.kind is not one.POSITIONAL_ONLY:
            parts.append("/")
        stars = "*" * (one.kind is one.VAR_POSITIONAL) + "**" * (one.kind is one.VAR_KEYWORD)
        told = f": {type_text(one.annotation)}" if one.annotation is not one.empty else ""
        default = "" if one.default is one.empty else (" = " if told else "=") + value_text(one.default)
        parts.append(f"{stars}{one.name}{told}{default}")
    if parameters and parameters[-1].kind is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    answer = signature.return_annotation
    return f"({', '.join(parts)})" + (f" -> {type_text(answer)}" if answers and answer is not signature.empty else "")


def value_text(value: object) -> str:
    """A default; what only says "not given", or has no stable text, is an ellipsis."""
    if value is None or isinstance(value, (str, bytes, bool, int, float)):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' * (len(value) == 1)})"
    return value.__name__ if isinstance(value, type) else "…"


def type_text(kind: Any) -> str:
    """A type as the source writes it, without what stands for "not given"; the same on every Python."""
    if isinstance(kind, str):
        return re.sub(r"\s*\|\s*UnsetType|UnsetType\s*\|\s*", "", kind.strip("'\""))
    if kind is None or kind is type(None):
        return "None"
    if kind is ...:
        return "..."
    if isinstance(kind, list):
        return f"[{', '.join(map(type_text, kind))}]"
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin is types.UnionType or getattr(origin, "__name__", getattr(origin, "_name", "")) == "Union":
        return " | ".join(type_text(one) for one in inner if one is not msgspec.UnsetType)
    if inner:
        return f"{type_text(origin)}[{', '.join(map(type_text, inner))}]"
    return str(getattr(kind, "__name__", None) or getattr(kind, "__forward_arg__", None) or kind)


def plugins() -> list[str]:
    """The modules of the pytest plugin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["entry-points"]["pytest11"].values())


def fixtures() -> Iterator[str]:
    """The fixtures of the pytest plugin, which pyproject.toml names."""
    for module in plugins():
        functions = [node for node in tree_of(module).body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for node in sorted(functions, key=lambda one: one.name):
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            for mark in marks:
                if mark.startswith("pytest.fixture") and node.returns is not None:
                    scope = re.search(r"scope='(\w+)'", mark)
                    yield f"{node.name}: {ast.unparse(node.returns)}" + (f", one for a {scope[1]}" if scope else "")
