"""Fixtures of the tests that need a Kubernetes, and the time that each of them may take.

The cluster is the one that KUBECONFIG names, or else `make cluster` brings it up; where that cannot
be, the tests fail. A test is given a namespace of its own, so that tests may run side by side.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import client_pod as client
from support import models_server as files
from support.client_pod import ClientPod
from support.cluster import Kubectl, foreign, script, soon
from support.models_server import ModelsServer
from support.once import once
from support.release import Release, deploy, lab_profile, namespace
from support.team_models import TeamModels, team_models

BUDGET_SECONDS = 60.0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"budget(seconds): how long the test may take; {BUDGET_SECONDS:g} unless told"
    )
    config.addinivalue_line("markers", "own_cluster: about the cluster of `make cluster` itself")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With another cluster, what is said of ours alone is no question at all."""
    others = [item for item in items if foreign() and item.get_closest_marker("own_cluster")]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if foreign() and not hasattr(session.config, "workerinput"):  # ours keeps them until it goes
        shared = (client.NAMESPACE, files.NAMESPACE)
        Kubectl().attempt("delete", "namespace", *shared, "--ignore-not-found", "--wait=false")
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and foreign():
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when != "call":
        return report
    marker = item.get_closest_marker("budget")
    budget = float(marker.args[0]) if marker else BUDGET_SECONDS
    report.user_properties.append(("budget", budget))
    if report.passed and report.duration > budget:
        report.outcome = "failed"
        report.longrepr = f"{item.name} took {report.duration:.1f} s; its budget is {budget:g} s"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    called = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
        and report.when == "call"
        and dict(report.user_properties).get("budget")  # else it is a test of another folder
    ]
    terminalreporter.section("seconds taken, of those allowed")
    for report in sorted(called, key=lambda report: -report.duration):
        budget = dict(report.user_properties)["budget"]
        terminalreporter.write_line(f"{report.duration:7.1f} of {budget:4g}  {report.nodeid}")


@pytest.fixture(scope="session")
def cluster() -> Kubectl:
    up = script("up.sh")
    assert up.returncode == 0, up.stderr
    return Kubectl()


@pytest.fixture
def kubectl(cluster: Kubectl) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own."""
    with _namespace(cluster, restricted=False) as inside:
        yield inside


@pytest.fixture
def team(deployed: Release) -> Iterator[Kubectl]:
    """The same where a release serves models; pods that are not `restricted` are refused there."""
    with _namespace(Kubectl(), restricted=True) as inside:
        yield inside


@contextmanager
def _namespace(cluster: Kubectl, *, restricted: bool) -> Iterator[Kubectl]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    if restricted:
        cluster.apply(namespace(name))
    else:
        cluster("create", "namespace", name)
    inside = Kubectl(name)
    # no pod can be made before its controller has made this account
    soon(lambda: inside.attempt("get", "serviceaccount", "default").returncode == 0, "an account")
    yield inside
    cluster("delete", "namespace", name, "--ignore-not-found", "--wait=false")


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of the session share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def deployed(cluster: Kubectl, session_folder: Path) -> Release:
    """The release that `make deploy` installs, once in a session; operator and router are up."""
    release = Release()
    once(session_folder, "deploy", lambda: deploy(release))
    return release


@pytest.fixture(scope="session")
def client_pod(deployed: Release, session_folder: Path) -> ClientPod:
    """A pod in another namespace that asks the router, or anybody else."""
    once(session_folder, "client", client.run_client_pod)
    return ClientPod(deployed.url)


@pytest.fixture(scope="session")
def models_server(
    deployed: Release, client_pod: ClientPod, tiny_models: Path, session_folder: Path
) -> ModelsServer:
    """Tiny models and broken files on a server in the cluster, which the profile `lab` allows."""
    folder = session_folder / "served-files"

    def run() -> str:
        shutil.copytree(tiny_models, folder)
        files.add_odd_files(folder)
        deployed.kubectl.apply(lab_profile([files.HOST]))
        files.run_models_server(folder)
        return ""

    once(session_folder, "files", run)
    return ModelsServer(folder, client_pod)


@pytest.fixture
def models(team: Kubectl, deployed: Release, models_server: ModelsServer) -> Iterator[TeamModels]:
    """The models of the test's own namespace, and all that is ever said of them."""
    with team_models(team, deployed, [files.HOST]) as followed:
        yield followed
