"""``tarry token``: who may use a service."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from tarry.errors import BadInput
from tarry.programs.cli.commands import group, verb
from tarry.programs.cli.output import rfc3339
from tarry.programs.cli.session import CommandSession

token = group("token", "Tokens of a namespace, for services.")
Scopes = Annotated[
    list[str], typer.Option("--scope", help="view, produce, consume or admin; may be repeated.", show_default=False)
]


@verb(within=token)
def create(
    session: CommandSession,
    scope: Scopes,
    note: Annotated[str, typer.Option(help="Whose it is: the list shows it.")] = "",
    calls: Annotated[
        float | None, typer.Option(help="At most so many calls a second, in each service.", show_default=False)
    ] = None,
    jobs: Annotated[
        float | None, typer.Option(help="At most so many jobs a second, in each service.", show_default=False)
    ] = None,
) -> None:
    """Makes a token and shows it: now, and never again."""
    from tarry.verbs import tokens

    text, id, record = tokens.create_token(os.urandom, scope, note, calls=calls, jobs=jobs)
    session.client.engine.run(tokens.store_token(session.namespace, id, record))
    session.print_note(f"The token {id} of the namespace {session.namespace}; what is stored of it is a hash.")
    session.print_answer({"id": id, "token": text, "namespace": session.namespace, "scopes": list(record.scopes)}, text)


@verb(name="list", within=token)
def list_tokens(session: CommandSession) -> None:
    """Shows the tokens of the namespace, without what is secret."""
    from tarry.verbs import tokens

    _, found = session.client.engine.run(tokens.list_tokens(session.namespace))
    for one in found:
        record = one.record
        limits = {"calls": record.calls, "jobs": record.jobs}
        said: dict[str, Any] = {"id": one.id, "scopes": list(record.scopes), "note": record.note, **limits}
        words = [f"{limit:g} {what}/s" for what, limit in limits.items() if limit is not None]
        shown = "  ".join([one.id, rfc3339(one.created) or "", ",".join(record.scopes), *words, record.note])
        session.print_answer({**said, "created": rfc3339(one.created)}, shown.rstrip())


@verb(within=token)
def revoke(
    session: CommandSession,
    id: Annotated[str, typer.Argument(metavar="ID", help="Of the token, as the list shows it.", show_default=False)],
) -> None:
    """Ends a token, everywhere, within a second."""
    from tarry.verbs import tokens

    if not session.client.engine.run(tokens.delete_token(session.namespace, id)):
        raise BadInput(f"id: no token {id} in the namespace {session.namespace}; see `tarry token list`.")
    session.print_answer({"id": id, "revoked": True}, f"{id}  revoked")
