"""`python -m pumas_operator` as a process: its settings, its lead, its work, its end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from socket import create_server

import pytest

from pumas_operator.__main__ import main
from pumas_operator.kinds import JOB, LEASE, SERVED_MODEL
from support.api_server import MODELS, held, refuse
from support.cluster_objects import model_object
from support.eventually import eventually
from support.operator_api import OperatorApi
from support.operator_process import (
    HOME,
    IDENTITY,
    IN_A_HURRY,
    changed,
    environment,
    give_lease,
    holder,
    operating,
)
from support.operator_world import SOURCE, TEAM

LEASES = LEASE.path(HOME)


@pytest.fixture
async def api() -> AsyncIterator[OperatorApi]:
    """With one model."""
    api = OperatorApi()
    api.cluster.put(SERVED_MODEL, model_object("a", source=SOURCE))
    async with api.server.serving():
        yield api


@pytest.fixture
def quiet_kopf() -> Iterator[None]:
    """The program sets how much kopf logs, for the whole process."""
    kopf = logging.getLogger("kopf")
    level = kopf.level
    yield
    kopf.setLevel(level)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"PUMAS_NAMESPACE": ""}, "PUMAS_NAMESPACE is not set; the chart sets it."),
        ({"HOSTNAME": ""}, "HOSTNAME is not set; the chart sets it."),
        (
            {"PUMAS_HEALTH_PORT": "http"},
            "PUMAS_HEALTH_PORT is 'http', and not a number from 1 to 65535.",
        ),
        (
            {"PUMAS_KEY_SECRET_FILE": "{folder}/missing"},
            "The file of PUMAS_KEY_SECRET_FILE cannot be read: No such file or directory.",
        ),
        (
            {"PUMAS_KEY_SECRET_FILE": "{folder}"},
            "The file of PUMAS_KEY_SECRET_FILE cannot be read: Is a directory.",
        ),
    ],
)
@pytest.mark.usefixtures("quiet_kopf")
def test_a_setting_that_cannot_be_is_one_sentence(
    settings: dict[str, str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in (environment(tmp_path) | settings).items():
        monkeypatch.setenv(name, value.format(folder=tmp_path))
    assert main() == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"{sentence}\n")


@pytest.mark.usefixtures("quiet_kopf")
def test_a_port_that_is_taken_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(create_server(("", 0))) as taken:
        port = str(taken.getsockname()[1])
        for name, value in (environment(tmp_path) | {"PUMAS_HEALTH_PORT": port}).items():
            monkeypatch.setenv(name, value)
        assert main() == 1
    assert "the operator cannot go on" in caplog.text
    assert "address already in use" in caplog.text


async def test_the_process_ends_with_that_sentence(tmp_path: Path) -> None:
    async with operating(tmp_path, "http://127.0.0.1:1", PUMAS_WORKER_IMAGE="") as running:
        assert await running.ended() == 2
    assert running.log == "PUMAS_WORKER_IMAGE is not set; the chart sets it.\n"


def condition(api: OperatorApi, name: str) -> str:
    """What is said of a model's acceptance."""
    status = api.cluster.get(SERVED_MODEL, TEAM, name).get("status", {})
    told = {each["type"]: each["reason"] for each in status.get("conditions", [])}
    return str(told.get("Accepted", ""))


async def test_it_leads_and_works_and_gives_the_lead_up_at_the_end(
    api: OperatorApi, tmp_path: Path
) -> None:
    async with operating(tmp_path, api.server.url) as running:
        await eventually(lambda: holder(api) == IDENTITY, "it leads")
        await eventually(lambda: condition(api, "a") == "Inspecting", "what was there is told of")
        assert len(api.cluster.named(JOB)) == 1
        await eventually(lambda: api.server.watching(MODELS), "it watches")
        api.cluster.put(SERVED_MODEL, model_object("b", source=SOURCE))
        await eventually(lambda: condition(api, "b") == "Inspecting", "what comes is told of")
        assert await running.health() == (200, "ok")
        assert await running.stopped(signal.SIGTERM) == 0
    assert holder(api) == ""
    assert "Traceback" not in running.log
    assert "kopf" not in running.log


async def test_a_leader_whose_events_have_ceased_says_that_it_is_not_well(
    api: OperatorApi, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    api.server.fail(LEASES, held(gate, api.server._watch), watch=True)
    hurried = changed(
        "leader.RENEW_SECONDS = 0.05; from pumas_operator import health; health.SILENCE_SECONDS = 1"
    )
    async with operating(tmp_path, api.server.url, command=hurried) as running:
        assert "though the Lease was renewed" in await running.until_health(503)
        gate.set()
        assert await running.until_health(200) == "ok"


async def test_while_another_leads_it_waits_and_is_well(api: OperatorApi, tmp_path: Path) -> None:
    give_lease(api, "other")
    async with operating(tmp_path, api.server.url, command=IN_A_HURRY) as running:
        await running.until_logged("another operator leads; this one waits")
        asked = len(api.server.asked)
        await eventually(lambda: len(api.server.asked) > asked + 2, "it looks again")
        assert await running.health() == (200, "ok")
        only = ("GET", f"{LEASES}/pumas-operator")
        assert {(told.method, told.path) for told in api.server.asked} == {only}
        give_lease(api, "")
        await eventually(lambda: condition(api, "a") == "Inspecting", "it leads")
        assert holder(api) == IDENTITY


async def test_one_that_lost_the_lead_ends_and_leaves_it_to_the_other(
    api: OperatorApi, tmp_path: Path
) -> None:
    async with operating(tmp_path, api.server.url, command=IN_A_HURRY) as running:
        await eventually(lambda: condition(api, "a") == "Inspecting", "it leads")
        give_lease(api, "other")
        assert await running.ended() == 1
    assert holder(api) == "other"
    assert running.log.endswith("another operator leads now; this one ends\n")
    assert "Traceback" not in running.log


async def test_nothing_is_said_before_all_was_listed_and_a_stop_meanwhile_is_in_order(
    api: OperatorApi, tmp_path: Path
) -> None:
    for _ in range(100):
        api.server.fail(MODELS, refuse(404))
    async with operating(tmp_path, api.server.url) as running:
        await running.until_logged("what there is cannot be listed")
        assert condition(api, "a") == ""
        assert await running.stopped(signal.SIGTERM) == 0
    assert holder(api) == ""
    assert [path for path in api.cluster.writes if "/leases" not in path] == []


async def test_a_failure_beyond_repair_ends_it_and_gives_the_lead_up(
    api: OperatorApi, tmp_path: Path
) -> None:
    broken = changed("program.build_registry = None")
    async with operating(tmp_path, api.server.url, command=broken) as running:
        assert await running.ended() == 1
    assert "the operator cannot go on" in running.log
    assert "'NoneType' object is not callable" in running.log
    assert [path for path in api.cluster.writes if "/leases" in path] == [
        f"POST {LEASES}",
        f"PUT {LEASES}/pumas-operator",
    ]
    assert holder(api) == ""


async def test_without_an_api_server_it_waits_and_is_well(tmp_path: Path) -> None:
    async with operating(tmp_path, "http://127.0.0.1:1") as running:
        await running.until_logged("the Lease cannot be renewed")
        assert await running.health() == (200, "ok")
        assert await running.stopped(signal.SIGINT) == 0
    assert "Traceback" not in running.log
