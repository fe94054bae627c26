"""Requests about guarded queues."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from tarry.clients.http.wire.types import AnyJson, Base64, Limit, Span, Strict, Wait

Layout = Annotated[
    Literal["tarry", "article"],
    Meta(description="article: d_q_p:NAME, as the Java design that guarded queues come from has it"),
]


class GuardedQuery(Strict):
    """How its items lie on the server."""

    layout: Layout = "tarry"


class Pushed(Strict):
    """A value: ``body`` (JSON) or ``body_base64`` (bytes)."""

    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    delay: Span = 0


class PushItems(GuardedQuery, kw_only=True):
    """Values to put in, each with its delay."""

    items: Annotated[list[Pushed], Meta(min_length=1, max_length=10_000)]


class PollGuarded(GuardedQuery):
    """``max_lateness``: nothing is taken, if the first item is later."""

    count: Limit = 1
    wait: Wait = 0
    max_lateness: Span | None = None


class ClearGuarded(GuardedQuery):
    """Everything."""
