"""The register of verbs. A verb is a function whose first parameter is the session; every one has the same options:

    @verb()
    def kick(session: Session, topic: TopicName, ids: Ids) -> None:
        "Makes dead jobs ready again."      (the docstring is the help)

A module of verbs is named in ``app.py``; there is nothing else to do.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from tarry.errors import TarryError
from tarry.programs.cli import completion
from tarry.programs.cli.session import CommandSession

INTERRUPTED = 130
"""What a shell calls a program ended by Ctrl-C."""
app = typer.Typer(
    name="tarry",
    help="Delayed jobs on Redis and Valkey: put a job in now, get it out when it is due.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Url = Annotated[
    str | None, typer.Option("--url", help="The server. Else TARRY_URL, else the embedded one.", show_default=False)
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", help="Keeps applications apart. Else TARRY_NAMESPACE, else default.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, one line each.")]

Patience = Annotated[
    str | None,
    typer.Option(
        "--patience",
        help="How long to try a server that does not answer: 3s, or 10s for what waits.",
        show_default=False,
    ),
]


def _tell_version(asked: bool) -> None:
    if asked:
        from tarry import __version__

        typer.echo(f"tarry {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Says which tarry this is.", callback=_tell_version, is_eager=True)
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
        metavar="[TOPIC...]",
        help="The topics; all of them when none is named.",
        autocompletion=completion.complete_topics,
    ),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id.", show_default=False)]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="The jobs' ids.", show_default=False)]
Receipt = Annotated[int, typer.Argument(metavar="RECEIPT", help="The receipt that pop answered.", show_default=False)]


@app.callback()
def everywhere(
    context: typer.Context,
    url: Url = None,
    namespace: Namespace = None,
    json: Json = False,
    patience: Patience = None,
    version: Version = False,  # noqa: ARG001  # its own callback has told it
) -> None:
    context.obj = (url, namespace, json, patience)


def group(name: str, words: str) -> typer.Typer:
    """Verbs of one thing, behind its name: ``@verb(within=group("delayed-queue", "…"))``."""
    made = typer.Typer(help=words, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(made, name=name)
    return made


def verb(
    *, name: str | None = None, hidden: bool = False, patient: bool = True, within: typer.Typer = app
) -> Callable[[Callable[..., None]], Any]:
    """Makes a command of a function, with ``--url``, ``--namespace``, ``--json`` and, if it is ``patient``, ``--patience``."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        own = list(signature.parameters.values())[1:]
        shared = list(inspect.signature(everywhere, eval_str=True).parameters.values())[: -1 if patient else -2]

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
                session.forget_stdout()
            except KeyboardInterrupt:
                raise typer.Exit(INTERRUPTED) from None
            except TarryError as fault:
                from tarry.programs.cli.messages import in_cli_words

                fault.args = (in_cli_words((*own, *shared), str(fault)),)
                raise
            finally:
                session.close()

        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del command.__wrapped__
        within.command(name or function.__name__.strip("_").replace("_", "-"), hidden=hidden)(command)
        return function

    return register
