"""`make cluster-down` leaves nothing on the machine. Run last and alone: it takes the cluster away."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.cluster import DATA, STATE, Kubectl, script, soon

pytestmark = pytest.mark.own_cluster
CHANGED = (
    "net.ipv4.ip_forward",
    "fs.inotify.max_user_instances",
    "vm.overcommit_memory",
    "kernel.panic",
)


def printed(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def processes() -> set[str]:
    """Of the cluster: they have its folder in their command line, or are in its mount namespace."""
    found = set()
    home = os.readlink("/proc/self/ns/mnt")
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            namespace = os.readlink(entry / "ns" / "mnt")
        except OSError:
            continue  # it ended meanwhile, or is a zombie
        if (
            str(DATA) in line
            or str(STATE / "bin") in line
            or (namespace != home and "pause" in line)
        ):
            found.add(f"{entry.name} {line}")
    return found


def traces() -> dict[str, set[str]]:
    """What a cluster makes of a machine, by kind."""
    return {
        "processes": processes(),
        "mounts": {line for line in Path("/proc/mounts").read_text().splitlines() if "/kube" in line or "netns" in line},
        "devices": {line.split()[0] for line in printed("ip", "-br", "link") if line.startswith(("pumas", "veth"))},
        "routes": {line for line in printed("ip", "route") if line.startswith("10.")},
        "tables": set(printed("nft", "list", "tables")),
        "iptables": {line for line in printed("iptables-save") if "CNI-" in line or "KUBE-" in line},
        "cgroups": {str(path) for path in Path("/sys/fs/cgroup").glob("**/kubepods")},
        "sysctls": {f"{n}={Path('/proc/sys', *n.split('.')).read_text().strip()}" for n in CHANGED},
        "folders": {p for p in ("/var/lib/kubelet", "/var/lib/cni", "/var/log/containers") if Path(p).exists()},
        "state": {str(DATA)} if DATA.exists() else set(),
    }  # fmt: skip


@pytest.mark.budget(120)
def test_nothing_is_left_of_a_cluster_with_a_running_pod() -> None:
    assert script("down.sh").returncode == 0  # whatever was up: the comparison starts from none
    before = traces()
    up = script("up.sh")
    assert up.returncode == 0, up.stderr
    container = {
        "name": "only",
        "image": "busybox:1",
        "command": ["sleep", "600"],
        "ports": [{"containerPort": 80, "hostPort": 18080}],
    }
    Kubectl().apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [container]},
        }
    )
    Kubectl()("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
    during = traces()
    unseen = {kind for kind in before if not during[kind] - before[kind]}
    assert unseen <= {"mounts"}, (
        "the look at the machine must see a cluster"
    )  # mounts are in a namespace

    down = script("down.sh")
    assert down.returncode == 0, down.stderr
    soon(lambda: traces() == before, "a machine as it was", 10)
    assert script("down.sh").stdout == "no cluster of this checkout is up\n"
