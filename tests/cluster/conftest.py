"""Fixtures of the tests that need a Kubernetes, and the time that each of them may take.

The cluster is the one that KUBECONFIG names, or else `make cluster` brings it up; where that cannot
be, the tests fail. A test is given a namespace of its own, so that tests may run side by side.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator

import pytest

from support.cluster import Kubectl, foreign, script, soon

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
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    terminalreporter.section("seconds taken, of those allowed")
    for report in sorted(called, key=lambda report: -report.duration):
        budget = dict(report.user_properties).get("budget")
        terminalreporter.write_line(f"{report.duration:7.1f} of {budget:4g}  {report.nodeid}")


@pytest.fixture(scope="session")
def cluster() -> Kubectl:
    up = script("up.sh")
    assert up.returncode == 0, up.stderr
    return Kubectl()


@pytest.fixture
def kubectl(cluster: Kubectl) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster("create", "namespace", name)
    inside = Kubectl(name)
    # no pod can be made before its controller has made this account
    soon(lambda: inside.attempt("get", "serviceaccount", "default").returncode == 0, "an account")
    yield inside
    cluster("delete", "namespace", name, "--wait=false")
