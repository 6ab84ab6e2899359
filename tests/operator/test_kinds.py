"""Where the API has each kind."""

from __future__ import annotations

import pytest

from pumas_operator.kinds import CHILDREN, DEPLOYMENT, EVENT, SERVED_MODEL, WATCHED_CHILDREN, Kind


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (EVENT.path("team"), "/api/v1/namespaces/team/events"),
        (EVENT.everywhere, "/api/v1/events"),
        (DEPLOYMENT.path("team", "tiny"), "/apis/apps/v1/namespaces/team/deployments/tiny"),
        (
            SERVED_MODEL.path("team", "tiny", "status"),
            "/apis/serving.pumas.dev/v1alpha1/namespaces/team/servedmodels/tiny/status",
        ),
        (SERVED_MODEL.everywhere, "/apis/serving.pumas.dev/v1alpha1/servedmodels"),
    ],
)
def test_paths(path: str, wanted: str) -> None:
    assert path == wanted


def test_every_child_but_the_secret_is_watched() -> None:
    assert {*CHILDREN} - {kind.name for kind in WATCHED_CHILDREN} == {"Secret"}
    assert all(isinstance(kind, Kind) and kind.name == name for name, kind in CHILDREN.items())
