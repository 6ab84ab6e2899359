"""Operations on a cluster's models, and waiting until a router knows of them."""

from __future__ import annotations

from typing import Any

from support.client_pod import Answer, ClientPod
from support.cluster import soon

SERVABLE = ("wait", "--for=condition=Servable", "--timeout=90s")


def operation(model: str, **members: Any) -> dict[str, Any]:
    return {"contract_version": 1, "request_id": "lab:1", "model": model, **members}


def answered(client: ClientPod, path: str, body: dict[str, Any]) -> Answer:
    """The first answer that is a result: a router hears of a model a moment after `Servable`."""

    def ask() -> Answer | None:
        answer = client.ask(path, body)
        if answer.status == 200:
            return answer
        assert answer.headers.get("x-pumas-outcome", "not_admitted") == "not_admitted", answer
        return None

    return soon(ask, f"an answer of {path}", 10)
