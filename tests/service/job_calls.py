"""Jobs over the API, in two words."""

from __future__ import annotations

from typing import Any

from service.running_service import Api

JOBS = "/v1/topics/orders/jobs"
MANY = "/v1/topics/orders/many"


def add(api: Api, body: Any = "tea", status: int = 201, **said: Any) -> Any:
    return api.post(JOBS, {"body": body, **said}, status)


def pop(api: Api, **said: Any) -> Any:
    return api.post("/v1/topics/orders/pop", said)
