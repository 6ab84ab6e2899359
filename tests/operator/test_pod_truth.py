"""Pods as an API server gives them, and what is true of them: the words of whoever knows best."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.facts import Fault, FileFacts, Inspection
from pumas_crds.vocabulary import Reason
from pumas_operator.observation import PodObservation
from pumas_operator.pod_truth import observe_pod, observe_pods
from support.kubernetes import HASH, RUNNING, condition, pod, terminated, waiting

FILE = FileFacts(architecture="llama", size_bytes=10)
READ = Inspection(file=FILE).model_dump_json(by_alias=True, exclude_none=True)
MISMATCH = Fault(reason=Reason.DIGEST_MISMATCH, message="tiny.gguf has another sha256")
REFUSED = Inspection(error=MISMATCH).model_dump_json(by_alias=True, exclude_none=True)
FULL = Inspection(error=Fault(reason=Reason.FETCH_FAILED, message="the cache is full"))
NO_ROOM = FULL.model_dump_json(by_alias=True, exclude_none=True)

NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
READY = [condition("PodScheduled", "True"), condition("Ready", "True")]


def observed(**status: Any) -> PodObservation:
    return observe_pod(pod(**status), HASH)


def test_a_new_pod_says_nothing() -> None:
    assert observed() == PodObservation(uid="uid-of-tiny-serving-abc")


def test_an_object_without_a_status_is_no_accident() -> None:
    assert observe_pod({}, HASH) == PodObservation(uid="", current=False)
    broken = {"metadata": [], "status": {"conditions": "x", "containerStatuses": [1, None]}}
    assert observe_pod(broken, HASH) == PodObservation(uid="", current=False)


def test_a_pod_of_an_earlier_spec() -> None:
    assert observed().current
    assert not observed(spec_hash="f" * 16).current


def test_the_schedulers_own_sentence() -> None:
    scheduled = condition("PodScheduled", "False", reason="Unschedulable", message=NO_GPU)
    pending = observed(conditions=[scheduled])
    assert (pending.waiting, pending.message) == (Reason.UNSCHEDULABLE, NO_GPU)


def test_a_scheduler_that_says_nothing() -> None:
    gated = observed(conditions=[condition("PodScheduled", "False", reason="SchedulingGated")])
    assert (gated.waiting, gated.message) == (
        Reason.UNSCHEDULABLE,
        "The pod has no node yet.",
    )


@pytest.mark.parametrize("which", ["fetch", "server"])
@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("ErrImagePull", Reason.IMAGE_PULL_BACK_OFF),
        ("ImagePullBackOff", Reason.IMAGE_PULL_BACK_OFF),
        ("ErrImageNeverPull", Reason.IMAGE_PULL_BACK_OFF),
        ("InvalidImageName", Reason.IMAGE_PULL_BACK_OFF),
        ("CreateContainerConfigError", Reason.CREATE_CONTAINER_CONFIG_ERROR),
        ("CreateContainerError", Reason.CREATE_CONTAINER_CONFIG_ERROR),
        ("RunContainerError", Reason.CREATE_CONTAINER_CONFIG_ERROR),
    ],
)
def test_the_kubelets_own_sentence(which: str, told: str, reason: Reason) -> None:
    sentence = 'Back-off pulling image "registry.example/p:1": not found'
    status: dict[str, Any] = {which: {"state": waiting(told, sentence)}}
    pending = observed(**status)
    assert (pending.waiting, pending.message) == (reason, sentence)


def test_a_kubelet_that_says_nothing() -> None:
    pending = observed(fetch={"state": waiting("ErrImagePull")})
    assert pending.message == "The kubelet gives no reason."


@pytest.mark.parametrize("told", ["PodInitializing", "ContainerCreating", "SomethingNew"])
def test_waiting_that_means_nothing(told: str) -> None:
    assert observed(server={"state": waiting(told)}).waiting is None


def test_what_fetching_found_stays_known_while_the_engine_runs() -> None:
    pending = observed(fetch={"state": terminated(0, READ)}, server={"state": RUNNING})
    assert pending.inspection == Inspection(file=FILE)
    assert (pending.fetch_failed, pending.engine_fault, pending.waiting) == (False, None, None)


@pytest.mark.parametrize(
    "fetch",
    [
        {"state": terminated(1, REFUSED)},
        {"state": waiting("CrashLoopBackOff"), "lastState": terminated(1, REFUSED)},
        {"state": RUNNING, "lastState": terminated(1, REFUSED), "restartCount": 1},
    ],
)
def test_what_fetching_refused_stays_known_while_it_is_tried_again(fetch: dict[str, Any]) -> None:
    pending = observed(fetch=fetch)
    assert pending.inspection == Inspection(error=MISMATCH)
    assert (pending.fetch_failed, pending.waiting) == (True, None)


def test_a_fetch_that_failed_for_a_passing_cause_says_which() -> None:
    pending = observed(fetch={"state": terminated(1, NO_ROOM)})
    assert pending.inspection == FULL
    assert (pending.fetch_failed, pending.message) == (True, "the cache is full")


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("", "Fetching the file ended with exit code 3."),
        ("{broken", "Fetching the file ended with exit code 3: {broken"),
        ("{}", "Fetching the file ended with exit code 3: {}"),
        ("a line\n  the last line \n\n", "Fetching the file ended with exit code 3: the last line"),
    ],
)
def test_a_fetch_that_broke_is_explained_by_its_last_line(message: str, sentence: str) -> None:
    pending = observed(fetch={"state": terminated(3, message)})
    assert (pending.inspection, pending.fetch_failed) == (None, True)
    assert pending.message == sentence


def test_a_fetch_that_succeeded_after_a_failure_did_not_fail() -> None:
    fetch = {"state": terminated(0, READ), "lastState": terminated(1, NO_ROOM), "restartCount": 1}
    pending = observed(fetch=fetch)
    assert (pending.inspection, pending.fetch_failed) == (Inspection(file=FILE), False)


def test_a_fetch_without_enough_memory() -> None:
    pending = observed(fetch={"state": terminated(137, reason="OOMKilled")})
    assert (pending.waiting, pending.fetch_failed) == (Reason.OOM_KILLED, True)
    assert pending.message == "Fetching the file used more memory than its limit and was ended."


@pytest.mark.parametrize(
    "server",
    [
        {"state": terminated(137, reason="OOMKilled")},
        {"state": waiting("CrashLoopBackOff"), "lastState": terminated(137, reason="OOMKilled")},
        {"state": RUNNING, "lastState": terminated(137, reason="OOMKilled"), "restartCount": 4},
    ],
)
def test_a_server_without_enough_memory(server: dict[str, Any]) -> None:
    fault = observed(server=server).engine_fault
    assert fault is not None and fault.reason is Reason.OOM_KILLED
    assert fault.message == "The serving container used more memory than its limit and was ended."


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ({"state": terminated(1, "boom")}, Reason.ENGINE_FAILED),
        (
            {"state": waiting("CrashLoopBackOff"), "lastState": terminated(1, "boom")},
            Reason.CRASH_LOOP_BACK_OFF,
        ),
        (
            {"state": RUNNING, "lastState": terminated(1, "boom"), "restartCount": 1},
            Reason.CRASH_LOOP_BACK_OFF,
        ),
    ],
)
def test_a_server_that_ends_by_itself(server: dict[str, Any], reason: Reason) -> None:
    pending = observed(server=server)
    assert pending.engine_fault == Fault(
        reason=reason, message="The serving container ended with exit code 1: boom"
    )
    assert pending.restarts == server.get("restartCount", 0)


def test_a_server_that_its_probes_ended() -> None:
    fault = observed(server={"state": RUNNING, "lastState": terminated(0)}).engine_fault
    assert fault is not None and "failed probes" in fault.message


def test_our_own_programs_account_of_its_end_comes_first() -> None:
    server = {"state": waiting("CrashLoopBackOff"), "lastState": terminated(1, REFUSED)}
    assert observed(server=server).engine_fault == MISMATCH


def test_a_ready_pod_has_no_fault_left() -> None:
    serving = observed(
        conditions=READY,
        fetch={"state": terminated(0, READ)},
        server={"state": RUNNING, "lastState": terminated(1), "restartCount": 2},
    )
    assert (serving.ready, serving.engine_fault, serving.restarts) == (True, None, 2)


def test_a_pod_that_is_deleted_is_not_ready_whatever_it_says() -> None:
    going = pod(conditions=READY)
    going["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    seen = observe_pod(going, HASH)
    assert (seen.terminating, seen.ready) == (True, False)


def evicted(name: str, created: str) -> dict[str, Any]:
    sentence = "The node was low on resource: ephemeral-storage."
    return pod(name, created=created, phase="Failed", reason="Evicted", message=sentence)


def test_an_evicted_pod_counts_until_another_takes_its_place() -> None:
    (alone,) = observe_pods([evicted("a", "2030-01-01T00:00:00Z")], HASH)
    assert alone.waiting is Reason.EVICTED
    assert alone.message == "The node was low on resource: ephemeral-storage."
    alone_again = evicted("a", "2030-01-01T00:00:00Z")
    ended = {"name": "server", "state": terminated(137, "an engine's last line")}
    alone_again["status"]["containerStatuses"] = [ended]
    (seen,) = observe_pods([alone_again], HASH)
    assert (seen.waiting, seen.engine_fault) == (Reason.EVICTED, None)
    successor = pod("b", created="2030-01-01T00:01:00Z")
    pods = [successor, evicted("a", "2030-01-01T00:00:00Z")]
    assert [seen.uid for seen in observe_pods(pods, HASH)] == ["uid-of-b"]


def test_pods_come_oldest_first_and_by_name_within_a_second() -> None:
    pods = [
        pod("c", created="2030-01-01T00:00:02Z"),
        pod("b", created="2030-01-01T00:00:01Z"),
        pod("a", created="2030-01-01T00:00:02Z"),
    ]
    names = [seen.uid.removeprefix("uid-of-") for seen in observe_pods(pods, HASH)]
    assert names == ["b", "a", "c"]


def test_foreign_words_are_one_short_line_without_addresses() -> None:
    sentence = 'failed to pull "r.example/p": dial tcp 10.0.0.7:443:\nconnect:\x1b[31m refused' * 40
    pending = observed(fetch={"state": waiting("ErrImagePull", sentence)})
    assert "10.0.0.7" not in pending.message
    assert pending.message.isprintable() and len(pending.message) <= 500
    assert pending.message.startswith('failed to pull "r.example/p": dial tcp [redacted]: connect:')
