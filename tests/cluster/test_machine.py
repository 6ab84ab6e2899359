"""Where the cluster cannot be brought up, one sentence says why; where KUBECONFIG is set, none is."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from support.cluster import ADMIN, DATA, STATE, Kubectl, script

pytestmark = pytest.mark.own_cluster
PATH = os.environ["PATH"]


def ends_with_one_sentence(name: str, env: dict[str, str]) -> str:
    done = script(name, env=env)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr.strip()


def answering(folder: Path, command: str, answer: str) -> dict[str, str]:
    """An environment in which `command` prints `answer`."""
    program = folder / command
    program.write_text(f"#!/bin/sh\necho {answer}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}:{PATH}"}


def test_on_another_system_than_linux(tmp_path: Path) -> None:
    sentence = ends_with_one_sentence("up.sh", answering(tmp_path, "uname", "Darwin"))
    assert (
        sentence
        == "cluster: the test cluster needs Linux; set KUBECONFIG to a cluster that runs elsewhere"
    )


def test_without_root(tmp_path: Path) -> None:
    sentence = ends_with_one_sentence("up.sh", answering(tmp_path, "id", "1000"))
    assert sentence.startswith(
        "cluster: the test cluster needs root (it makes network devices and mounts)"
    )


def test_without_the_programs_and_without_apt(tmp_path: Path) -> None:
    for command in ("bash", "dirname", "uname", "id", "mkdir", "flock"):
        (tmp_path / command).symlink_to(shutil.which(command) or command)
    sentence = ends_with_one_sentence("up.sh", {"PATH": str(tmp_path)})
    assert sentence.startswith(
        "cluster: these are missing and there is no apt-get to install them: containerd "
    )


@pytest.mark.xdist_group("processes")
def test_another_cluster_is_used_and_nothing_is_brought_up(
    cluster: Kubectl, tmp_path: Path
) -> None:
    before = {path.name: path.read_text() for path in (DATA / "run").glob("*.pid")}
    other = Path(shutil.copy(ADMIN, tmp_path / "other.kubeconfig"))
    done = script("up.sh", env={"PATH": f"{STATE}/bin:{PATH}", "KUBECONFIG": str(other)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "the cluster that KUBECONFIG names answers; nothing is brought up",
        f"export KUBECONFIG={other}",
    ]
    assert {path.name: path.read_text() for path in (DATA / "run").glob("*.pid")} == before


def test_another_cluster_that_does_not_answer(cluster: Kubectl, tmp_path: Path) -> None:
    dead = tmp_path / "dead.kubeconfig"
    dead.write_text(ADMIN.read_text().replace(":6443", ":1"))
    sentence = ends_with_one_sentence(
        "up.sh", {"PATH": f"{STATE}/bin:{PATH}", "KUBECONFIG": str(dead)}
    )
    assert sentence == "cluster: the cluster that KUBECONFIG names does not answer"


@pytest.mark.parametrize(
    ("context", "command"),
    [
        ("kind-here", "kind load image-archive --name here an.tar"),
        ("k3d-here", "k3d image import --cluster here an.tar"),
    ],
)
def test_an_image_is_loaded_by_the_tool_of_the_other_cluster(
    cluster: Kubectl, tmp_path: Path, context: str, command: str
) -> None:
    tool = command.split()[0]
    env = answering(tmp_path, tool, f'{tool} "$@"')
    other = tmp_path / "other.kubeconfig"
    other.write_text(ADMIN.read_text().replace("pumas-test", context))
    env = {"PATH": f"{env['PATH']}:{STATE}/bin", "KUBECONFIG": str(other)}
    assert script("image-load.sh", "an.tar", env=env).stdout == f"{command}\n"


def test_an_image_for_a_cluster_of_no_known_tool(cluster: Kubectl, tmp_path: Path) -> None:
    other = Path(shutil.copy(ADMIN, tmp_path / "other.kubeconfig"))
    env = {"PATH": f"{STATE}/bin:{PATH}", "KUBECONFIG": str(other)}
    done = script("image-load.sh", "an.tar", env=env)
    assert done.returncode == 1
    assert "no way is known to load an image into the cluster pumas-test" in done.stderr


@pytest.mark.xdist_group("processes")
def test_a_stopped_process_is_started_by_the_next_up(cluster: Kubectl) -> None:
    """So a test can take the API server away for a while."""
    stopped = script("down.sh", "scheduler")
    assert stopped.returncode == 0, stopped.stderr
    assert not (DATA / "run" / "scheduler.pid").exists()
    assert script("up.sh").returncode == 0
    assert (DATA / "run" / "scheduler.pid").exists()
