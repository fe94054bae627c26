"""``tarry token``: creates, lists and revokes tokens for services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.errors import BadInput
from tarry.internal import perform
from tarry.programs.cli.commands import group, verb
from tarry.programs.cli.output import rfc3339
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry.internal import Token


token = group("token", "Tokens of a namespace, for services.")
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope", metavar="SCOPE", help="view, produce, consume or admin; may be repeated.", show_default=False
    ),
]


@verb(within=token)
def create(
    session: CommandSession,
    scope: Scopes,
    note: Annotated[str, typer.Option(metavar="TEXT", help="A note for the list, such as the owner.")] = "",
    calls: Annotated[
        float | None,
        typer.Option(metavar="N", help="Limit of calls a second, in each service process.", show_default=False),
    ] = None,
    jobs: Annotated[
        float | None,
        typer.Option(metavar="N", help="Limit of jobs a second, in each service process.", show_default=False),
    ] = None,
    sqs: Annotated[
        bool, typer.Option("--sqs", help="Make a token for clients of SQS, too, and show their two keys.")
    ] = False,
) -> None:
    """Creates a token and shows it, this once."""
    from tarry.internal import NamespaceVerbs, split_token

    verbs = NamespaceVerbs(session.namespace)
    text, id, record = verbs.create_token(scope, note, calls=calls, jobs=jobs, sqs=sqs)
    perform(session.client, verbs.store_token(id, record))
    session.print_note(f"The token {id} of the namespace {session.namespace}; only a hash of it is stored.")
    data: dict[str, Any] = {"id": id, "token": text, "namespace": session.namespace, "scopes": list(record.scopes)}
    if sqs and (parts := split_token(text)) is not None:
        data["secret_key"] = parts.sqs_secret_key
        session.print_note(f"For clients of SQS: the access key is {id}, the secret key {data['secret_key']}.")
    session.print_answer(data, text)


@verb(name="list", within=token)
def list_tokens(session: CommandSession) -> None:
    """Lists the tokens of the namespace, without their secrets."""
    from tarry.internal import NamespaceVerbs

    _, found = perform(session.client, NamespaceVerbs(session.namespace).list_tokens())
    for one in found:
        _print_token(session, one)


def _print_token(session: CommandSession, one: Token) -> None:
    record = one.record
    limits = {"calls": record.calls, "jobs": record.jobs}
    data: dict[str, Any] = {"id": one.id, "scopes": list(record.scopes), "note": record.note, **limits}
    words = [f"{limit:g} {what}/s" for what, limit in limits.items() if limit is not None]
    shown = "  ".join([one.id, rfc3339(one.created) or "", ",".join(record.scopes), *words, record.note])
    session.print_answer({**data, "created": rfc3339(one.created)}, shown.rstrip())


@verb(within=token)
def revoke(
    session: CommandSession,
    id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as the list shows it.", show_default=False)],
) -> None:
    """Revokes a token; all services refuse it within a second."""
    from tarry.internal import NamespaceVerbs

    if not perform(session.client, NamespaceVerbs(session.namespace).delete_token(id)):
        raise BadInput(f"id: no token {id} in the namespace {session.namespace}; see `tarry token list`.")
    session.print_answer({"id": id, "revoked": True}, f"{id}  revoked")
