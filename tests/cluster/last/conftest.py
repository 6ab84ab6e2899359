"""What only these tests have: the order in which they take things away, and an empty cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.cluster import Kubectl, soon
from support.installing import remove_everything
from support.models_server import ModelsServer
from support.release import Release, namespace

#: Each of them leaves less than those before it need: first the release goes, then the cluster.
LAST = (
    *("test_operator_faults", "test_lifecycle_faults", "test_rights", "test_lmsp_cluster"),
    *("test_install", "test_upgrade", "test_uninstall"),
    *("test_two_operators", "test_down"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LAST.index(item.path.stem) if item.path.stem in LAST else -1)


@pytest.fixture
def nothing_installed(models_server: ModelsServer) -> Iterator[Release]:
    """The release that a person installs, before anybody has. Images and the file server are there."""
    release = Release()
    remove_everything()
    Kubectl()("delete", "namespace", "--ignore-not-found", release.namespace)
    Kubectl().apply(namespace(release.namespace))
    yield release
    remove_everything()


@pytest.fixture
def namespaces() -> Iterator[Callable[[str], Kubectl]]:
    """Makes namespaces whose names matter, without what may be there under such a name."""
    made = []

    def make(name: str) -> Kubectl:
        Kubectl()("delete", "namespace", "--ignore-not-found", name)
        Kubectl().apply(namespace(name))
        made.append(name)
        inside = Kubectl(name)
        account = ("get", "serviceaccount", "default")
        soon(lambda: inside.attempt(*account).returncode == 0, "an account for pods")
        return inside

    yield make
    if made:
        Kubectl()("delete", "namespace", "--wait=false", *made)
