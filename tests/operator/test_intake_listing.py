"""Listing all that is watched: memory is what the cluster holds, and nothing newer is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from pumas_operator.cluster import Cluster, Refused, Unreachable
from pumas_operator.intake import Listing
from pumas_operator.json_object import Json
from pumas_operator.kinds import JOB, POD, SERVED_MODEL, SERVING_PROFILE
from pumas_operator.requests import Request
from support.cluster_objects import model_object
from support.fake_cluster import FakeCluster
from support.intake import HOME, Heard, at, child, profile

MODELS = "/apis/serving.pumas.dev/v1alpha1/servedmodels"
PODS = "/api/v1/pods"


@pytest.fixture
def heard() -> Heard:
    return Heard()


A = model_object("a", uid="u-a", alias="chat")
RIVAL = model_object("b", uid="u-b", alias="chat", namespace="other")
OTHER_PROFILE = model_object("c", uid="u-c", alias="chat", profile="big")
OTHER_ALIAS = model_object("d", uid="u-d")


@dataclass
class Pages:
    """An API server whose collections are the pages that are written here."""

    pages: dict[str, list[list[dict[str, Any]]]] = field(default_factory=dict)
    fault: tuple[str, Exception] | None = None
    """What is raised for the last page of a path."""
    meanwhile: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What happens after a path's first page was taken and before it is answered."""
    asked: list[Request] = field(default_factory=list)

    async def send(self, request: Request) -> Json:
        self.asked.append(request)
        assert len(self.asked) < 100, "it never ends"
        path, number = request.path, int(request.query.get("continue", "0"))
        pages = self.pages.get(path, [[]])
        last = number == len(pages) - 1
        if last and self.fault is not None and self.fault[0] == path:
            raise self.fault[1]
        if number == 0:
            self.meanwhile.get(path, lambda: None)()
        return {"items": pages[number], "metadata": {} if last else {"continue": str(number + 1)}}


async def list_all(cluster: Cluster, heard: Heard, *namespaces: str) -> None:
    await Listing(cluster, heard.objects, heard.intake, HOME, namespaces).list_all()


async def test_all_of_the_cluster_is_listed_and_profiles_at_home(heard: Heard) -> None:
    cluster = Pages()
    await list_all(cluster, heard)
    assert [request.path for request in cluster.asked] == [
        "/apis/coordination.k8s.io/v1/namespaces/pumas-system/leases",
        "/apis/serving.pumas.dev/v1alpha1/servedmodels",
        "/apis/serving.pumas.dev/v1alpha1/namespaces/pumas-system/servingprofiles",
        "/api/v1/services",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/networking.k8s.io/v1/networkpolicies",
        "/apis/apps/v1/deployments",
        "/apis/batch/v1/jobs",
        "/api/v1/pods",
    ]
    assert {request.method for request in cluster.asked} == {"GET"}
    ours = {"limit": "100", "labelSelector": "app.kubernetes.io/managed-by=pumas-operator"}
    leases = {"limit": "100", "labelSelector": "app.kubernetes.io/part-of=pumas-serving"}
    assert [dict(request.query) for request in cluster.asked] == [
        *(leases, {"limit": "100"}, {"limit": "100"}),
        *([ours] * 6),
    ]


async def test_of_some_namespaces_each_is_listed_and_profiles_at_home(heard: Heard) -> None:
    cluster = Pages()
    await list_all(cluster, heard, "a", "b")
    paths = [request.path for request in cluster.asked]
    assert paths[:5] == [
        "/apis/coordination.k8s.io/v1/namespaces/pumas-system/leases",
        "/apis/serving.pumas.dev/v1alpha1/namespaces/a/servedmodels",
        "/apis/serving.pumas.dev/v1alpha1/namespaces/b/servedmodels",
        "/apis/serving.pumas.dev/v1alpha1/namespaces/pumas-system/servingprofiles",
        "/api/v1/namespaces/a/services",
    ]
    assert len(paths) == 7 * 2 + 2
    assert paths[-2:] == ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"]


async def test_every_page_is_taken_in_before_anything_is_dropped(heard: Heard) -> None:
    for name in ("p1", "p2", "p3", "p9"):
        heard.intake.seen(POD, child(name, uid=name))
    cluster = Pages({PODS: [[child(f"p{n}", uid=f"p{n}", version=n)] for n in (1, 2, 3)]})
    await list_all(cluster, heard)
    asked = [request.query.get("continue") for request in cluster.asked if request.path == PODS]
    assert asked == [None, "1", "2"]
    assert {
        request.query["labelSelector"] for request in cluster.asked if request.path == PODS
    } == {"app.kubernetes.io/managed-by=pumas-operator"}
    assert set(heard.uids(POD)) == {"p1", "p2", "p3"}
    assert heard.forgotten == ["pod p9"]


async def test_what_is_listed_says_what_it_is(heard: Heard) -> None:
    """A list of a built-in kind does not say it of each; what an object says itself stands."""
    said = child("said", uid="v") | {"apiVersion": "v2", "kind": "Pod"}
    await list_all(Pages({PODS: [[child("unsaid"), said]]}), heard)
    told = {key.name: heard.objects.get(POD, key) for key in heard.objects.keys(POD)}
    assert told == {"unsaid": {"apiVersion": "v1", "kind": "Pod"} | child("unsaid"), "said": said}


async def test_what_a_listing_lacks_is_gone(heard: Heard) -> None:
    heard.knowing(A, RIVAL, OTHER_ALIAS)
    heard.intake.seen(SERVING_PROFILE, profile("default"))
    heard.intake.seen(POD, child(uid="u-pod"))
    cluster = FakeCluster()
    for body in (RIVAL, OTHER_ALIAS):
        cluster.put(SERVED_MODEL, body)
    heard.concerned()
    await list_all(cluster, heard)
    assert heard.uids(SERVED_MODEL) == {"b": "u-b", "d": "u-d"}
    assert heard.uids(SERVING_PROFILE) == heard.uids(POD) == {}
    assert heard.forgotten == ["model u-a", "pod u-pod"]
    assert {"team/a", "other/b", "team/a.long.name"} <= heard.concerned()


async def test_what_came_in_during_a_listing_is_newer_than_it(heard: Heard) -> None:
    changed, anew = at(20, A), at(21, model_object("b", uid="u-new", namespace="other"))

    def meanwhile() -> None:
        heard.intake.seen(SERVED_MODEL, OTHER_ALIAS)
        heard.intake.seen(SERVED_MODEL, changed)
        heard.intake.seen(SERVED_MODEL, anew)
        heard.intake.gone(SERVED_MODEL, OTHER_PROFILE)

    heard.knowing(A, RIVAL, OTHER_PROFILE)
    await list_all(Pages({MODELS: [[OTHER_PROFILE]]}, meanwhile={MODELS: meanwhile}), heard)
    assert heard.uids(SERVED_MODEL) == {"a": "u-a", "b": "u-new", "d": "u-d"}
    assert set(heard.forgotten) == {"model u-b", "model u-c"}


async def test_one_that_was_made_anew_unseen_is_taken_and_not_dropped(heard: Heard) -> None:
    heard.intake.seen(POD, child(uid="u1"))
    await list_all(Pages({PODS: [[child(uid="u2", version=7)]]}), heard)
    assert heard.uids(POD) == {"child": "u2"}
    assert heard.forgotten == ["pod u1"]


@pytest.mark.parametrize("fault", [Unreachable("away"), Refused(410, "Expired", "too old")])
async def test_a_listing_that_fails_is_raised_and_drops_nothing_of_its_kind(
    fault: Exception, heard: Heard
) -> None:
    heard.intake.seen(POD, child("held", uid="held"))
    heard.intake.seen(JOB, child("job", uid="job"))
    pages = [[child("first", uid="first")], []]
    with pytest.raises(type(fault)):
        await list_all(Pages({PODS: pages}, (PODS, fault)), heard)
    assert set(heard.uids(POD)) == {"held", "first"}
    assert heard.uids(JOB) == {}, "what was listed before that counts"
    assert heard.forgotten == []
