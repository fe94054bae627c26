"""The parts of map caches that need no connection, for both clients."""

from __future__ import annotations

import os
import time
from typing import Any, Literal

from tarry.clients.config import NamingConfig, redisson_of
from tarry.errors import BadInput
from tarry.verbs.codecs import Codec
from tarry.verbs.redisson.codecs import UNKNOWN_OF_MAP, codec_for, codec_of
from tarry.verbs.redisson.mapcache.eviction import AdaptivePolicy, EvictedMap, SweptMap
from tarry.verbs.redisson.mapcache.map_context import MapContext, context_of, own_context_of
from tarry.verbs.redisson.mapcache.map_values import Backend
from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs

Policy = Literal["deadline", "adaptive"] | AdaptivePolicy | None
"""When expired entries are removed: when they expire; by Redisson's rule; or not by this handle."""
NATIVE_CODEC = "kryo5"
"""The default codec of a map that no Java application shares: the one that takes the most types."""


def map_verbs(
    config: NamingConfig,
    name: str,
    codec: str | Codec[Any] | None,
    key_codec: str | Codec[Any] | None,
    backend: Backend,
    redisson: str | None = None,
) -> MapVerbs[Any, Any]:
    """Returns the verbs of a map. Raises ``BadInput`` for an invalid name, codec or backend."""
    version = redisson_of(redisson, config.redisson)
    if codec is None and backend == "native":
        codec = NATIVE_CODEC
    of_values = codec_of(codec, version, UNKNOWN_OF_MAP.format(f"map {name!r}"))
    of_keys = of_values if key_codec is None else codec_for(key_codec)
    cluster = config.cluster
    if backend == "native":
        context = own_context_of(name, config.namespace, of_keys, of_values, cluster=cluster, random=os.urandom)
    else:
        context = context_of(name, config.redisson_name(name), of_keys, of_values, cluster=cluster, random=os.urandom)
    return MapVerbs(context, backend)


def adaptive_policy(policy: Policy) -> AdaptivePolicy | None:
    """Returns the adaptive policy, if it is one."""
    if policy is None or policy == "deadline":
        return None
    if policy == "adaptive":
        return AdaptivePolicy()
    if isinstance(policy, AdaptivePolicy):
        return policy
    raise BadInput(f"policy: {policy!r}; it is deadline, adaptive, an AdaptivePolicy or None.")


def eviction_of(
    context: MapContext[Any, Any], policy: AdaptivePolicy | None, client_id: bytes
) -> EvictedMap | SweptMap:
    """The duty of a client that evicts from a map."""
    return EvictedMap(context, client_id) if policy is None else SweptMap(context, policy, time.monotonic())
