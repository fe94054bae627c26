"""Defines commands. A command is a function whose first parameter is the session; all have the same global options:

    @verb()
    def kick(session: CommandSession, topic: TopicName, ids: Ids) -> None:
        "Makes dead jobs ready again."      (the docstring is the help)

Name a new command in ``MODULES`` and ``SECTIONS``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tarry.errors import MissingExtra, TarryError
from tarry.programs.cli import completion
from tarry.programs.cli.session import CommandSession

SECTIONS = {
    "Jobs": "add pop finish touch release bury get list result dead delete kick reschedule release-holder",
    "Topics": "topics stats keys histogram throughput top check purge pause resume configure migrate",
    "Programs": "worker workers worker-mode serve demo doctor token celery-relay",
    "Schedules": "schedule",
    "Queues, maps and locks, also shared with Java": "delayed-queue map-cache lock guarded-queue",
}
"""The commands as ``--help`` groups them."""
MODULES = {
    "tarry.programs.cli.job_commands": "add pop finish touch release bury",
    "tarry.programs.cli.by_id_commands": "get list result delete kick reschedule release-holder",
    "tarry.programs.cli.dead_command": "dead",
    "tarry.programs.cli.topic_commands": "topics stats check purge pause resume configure",
    "tarry.programs.cli.key_commands": "keys",
    "tarry.programs.cli.doctor": "doctor",
    "tarry.programs.cli.top": "histogram throughput top demo demo-worker",
    "tarry.programs.cli.worker_commands": "workers worker-mode",
    "tarry.programs.cli.worker": "worker",
    "tarry.programs.cli.schedule_commands": "schedule",
    "tarry.programs.cli.migrate_command": "migrate",
    "tarry.programs.cli.queue_commands": "delayed-queue",
    "tarry.programs.cli.map_commands": "map-cache",
    "tarry.programs.cli.lock_commands": "lock",
    "tarry.programs.cli.guarded_commands": "guarded-queue",
    "tarry.programs.cli.serve": "serve",
    "tarry.programs.cli.token_commands": "token",
}
"""The module of each command, in the order of ``--help``: a call imports only the one that it needs."""
OF_EXTRAS = {"celery-relay": "tarry.programs.cli.celery_command"}
"""The modules of the commands that need an extra. ``--help`` lists those whose extra is installed."""


class PlainText:
    """Passes text on as it is. Typer would import pydantic to do that, which takes longer than all else that most calls do."""

    def coerce(self, value: Any, param: Any, ctx: typer.Context) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        kind = param.type_descriptor.annotation
        if (kind is str and _is_utf8(value)) or (kind is int and isinstance(value, int)):  # a number is the default
            return value
        if kind == list[str] and not isinstance(value, str) and all(map(_is_utf8, value)):
            return list(value)
        param._runtime_param = None  # noqa: SLF001  # Typer has no public name for it
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _is_utf8(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _pass_text_on(parameters: Sequence[Any]) -> None:
    for parameter in parameters:
        parameter._runtime_param = PlainText()  # noqa: SLF001  # older versions of Typer ignore it


USAGE_ERROR: Any = typer.BadParameter.__base__
"""Click's, or that of the Click in newer versions of Typer."""


class PlainCommand(TyperCommand):
    """A command whose text parameters need no pydantic. ``--help`` has each argument as its metavar says: ``ID...`` for several,
    ``[ID]...`` for none or several."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _pass_text_on(self.get_params(ctx))
        try:
            return super().parse_args(ctx, args)
        except USAGE_ERROR as fault:
            from tarry.programs.cli.other_commands import word_for_command

            option = getattr(fault, "option_name", None)  # of an option that does not exist
            _, _, command = ctx.command_path.partition(" ")
            if word := word_for_command(f"{command} {option}"):
                ctx.fail(f"No such option: {option}; tarry's is: {word}")
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [str(one.metavar) for one in self.get_params(ctx) if one.param_type_name == "argument"]
        return [self.options_metavar or "", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        parameters: list[Any] = self.get_params(ctx)
        for one in parameters:
            if one.param_type_name == "argument":
                one.display_type_rich = _no_type  # Typer would print <str> after the metavar
        super().format_options(ctx, formatter)


def _no_type(ctx: Any) -> None:
    """An argument's type is told by its metavar."""


class PlainGroup(TyperGroup):
    """A group whose text parameters need no pydantic. A command of another program is answered with tarry's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _pass_text_on(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            from tarry.programs.cli.other_commands import word_for_command

            if word := word_for_command(args[0] if ctx.parent is None else f"{ctx.info_name} {args[0]}"):
                ctx.fail(f"No such command '{args[0]}'; tarry's is: {word}")
        return super().resolve_command(ctx, args)


class SectionedGroup(PlainGroup):
    """The commands in sections: thirty in one list are read by nobody."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # typer gives it
        left = {name: command for name, command in self.commands.items() if not command.hidden}
        width = formatter.width - 6 - max(map(len, left))
        for title, names in SECTIONS.items():
            rows = [(name, left[name].get_short_help_str(width)) for name in names.split() if name in left]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=max(map(len, left)))


app = typer.Typer(
    name="tarry",
    cls=SectionedGroup,
    help="Delayed jobs on Redis and Valkey: put a job in now, get it out when it is due.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="The server. Default: TARRY_URL, or the embedded one.", show_default=False
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAME",
        help="Separates applications. Default: TARRY_NAMESPACE, or default.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, one line each.")]

Patience = Annotated[
    str | None,
    typer.Option(
        "--patience",
        metavar="DURATION",
        help="How long to retry when the server does not answer: 3s, or 10s for commands that wait.",
        show_default=False,
    ),
]


def _print_version(requested: bool) -> None:
    if requested:
        from tarry import __version__

        typer.echo(f"tarry {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]
Redisson = Annotated[
    str | None,
    typer.Option(
        "--redisson",
        metavar="VERSION",
        help="Redisson in the Java application, such as 3.15.1: it tells codec and format. Default: TARRY_REDISSON.",
        show_default=False,
    ),
]
TopicName = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="The topic.", show_default=False, autocompletion=completion.complete_topics),
]
TopicNames = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC...", help="The topics.", show_default=False, autocompletion=completion.complete_topics
    ),
]
AnyTopics = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TOPIC]...",
        help="The topics; default: all.",
        autocompletion=completion.complete_topics,
    ),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id.", show_default=False)]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="The jobs' ids.", show_default=False)]
Receipt = Annotated[int, typer.Argument(metavar="RECEIPT", help="The receipt that pop answered.", show_default=False)]


OPTIONS_WITH_A_VALUE = ("--url", "--namespace", "--patience")


@app.callback()
def global_options(
    context: typer.Context,
    url: Url = None,
    namespace: Namespace = None,
    json: Json = False,
    patience: Patience = None,
    version: Version = False,  # noqa: ARG001  # its callback has printed it
) -> None:
    context.obj = (url, namespace, json, patience)


SHARED = tuple(inspect.signature(global_options, eval_str=True).parameters.values())
"""The options of every command, but the last, which is the program's."""


def load_commands(arguments: Sequence[str]) -> None:
    """Imports the command that the arguments name. If they name none (``--help``, completion, a mistake), imports all whose
    extra is installed. Raises ``MissingExtra`` for a command whose extra is not.
    """
    rest = iter(arguments)
    for word in rest:
        if word == "--version":
            return
        if word in OPTIONS_WITH_A_VALUE:
            next(rest, None)
        elif word in ("-h", "--help"):
            break
        elif not word.startswith("-"):
            if word in OF_EXTRAS:
                import_module(OF_EXTRAS[word])
                return
            for module, names in MODULES.items():
                if word in names.split():
                    import_module(module)
                    return
            break
    import_module("tarry.programs.cli.app")
    for module in OF_EXTRAS.values():
        with suppress(MissingExtra):
            import_module(module)


def group(name: str, help: str) -> typer.Typer:
    """A group of commands behind one name: ``@verb(within=group("delayed-queue", "…"))``."""
    made = typer.Typer(cls=PlainGroup, help=help, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(made, name=name)
    return made


def verb(
    *, name: str | None = None, hidden: bool = False, with_patience: bool = True, within: typer.Typer = app
) -> Callable[[Callable[..., None]], Any]:
    """Makes a function a command with the options ``--url``, ``--namespace``, ``--json`` and, if ``with_patience``, ``--patience``."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        own = list(signature.parameters.values())[1:]
        shared = SHARED[: -1 if with_patience else -2]

        @wraps(function)
        def command(
            context: typer.Context,
            url: str | None,
            namespace: str | None,
            json: bool,
            patience: str | None = None,
            **given: Any,
        ) -> None:
            before_url, before_namespace, before_json, before_patience = context.obj
            session = CommandSession(
                url or before_url, namespace or before_namespace, json or before_json, patience or before_patience
            )
            try:
                function(session, **given)
                sys.stdout.flush()
            except BrokenPipeError:
                session.discard_stdout()
            except TarryError as fault:
                from tarry.programs.cli.messages import with_option_names

                fault.args = (with_option_names((*own, *shared), str(fault)),)
                raise
            finally:
                session.close()

        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del command.__wrapped__
        within.command(name or function.__name__.strip("_").replace("_", "-"), cls=PlainCommand, hidden=hidden)(command)
        return function

    return register
