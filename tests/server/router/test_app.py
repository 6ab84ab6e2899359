"""What a fault of the router itself looks like outside, on the routes of the framework."""

from __future__ import annotations

import json
import logging

import pytest

from support.routers import running_router


async def test_a_fault_on_a_read_route_is_told_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> str:
        raise RuntimeError("secret words")

    async with running_router() as running:
        monkeypatch.setattr(running.router.metrics, "render", fail)
        status, headers, raw = await running.get("/metrics")
        assert status == 500
        assert headers["content-type"] == "application/json"
        assert headers["x-pumas-outcome"] == "not_admitted"
        assert json.loads(raw)["error"]["code"] == "internal_error"
        assert b"secret" not in raw
        faults = [r for r in caplog.records if r.levelno >= logging.ERROR]
        assert [r.getMessage() for r in faults] == ["a request failed inside the router"]
        assert "secret words" in caplog.text
        status, _, _ = await running.get("/healthz")
        assert status == 200
