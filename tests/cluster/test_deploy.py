"""What `make deploy` leaves: pods of the images that it built, in a namespace that is `restricted`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.cluster import ROOT
from support.release import Release

IMAGE = "serving.pumas.dev/image"


def pods(release: Release) -> list[dict[str, Any]]:
    """Of operator and router, without those that are on their way out."""
    selector = f"app.kubernetes.io/instance={release.name}"
    found = release.kubectl.get("pods", "--selector", selector)["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


@pytest.mark.own_cluster
def test_pods_run_the_image_that_was_built_last(deployed: Release) -> None:
    built = (ROOT / ".cache" / "kube" / "image-id").read_text().strip()
    found = pods(deployed)
    assert len(found) == 3, "one operator, two routers"
    for pod in found:
        assert pod["metadata"]["annotations"][IMAGE] == built
        [container] = pod["status"]["containerStatuses"]
        # For containerd, an image that came from no registry is its configuration's digest.
        assert container["imageID"] == built


def test_the_operators_namespace_admits_restricted_pods_alone(deployed: Release) -> None:
    labels = deployed.kubectl.get("namespace", deployed.namespace)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_what_a_foreign_cluster_needs_is_said_before_anything_is_built(tmp_path: Path) -> None:
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    bare = {"PATH": str(tmp_path), "KUBECONFIG": str(tmp_path / "another")}
    done = subprocess.run(
        [ROOT / "scripts" / "deploy.sh"], env=bare, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cluster: KUBECONFIG is set, and kubectl is not on the PATH\n"
