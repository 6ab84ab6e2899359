"""`make bench-cluster`: how soon a model serves and the truth is told, how large the operator is.

On the cluster of `make cluster`, with the product of `make deploy`. Prints one table; exits 1 when
a goal is missed. A bare Deployment with the same pods is the other side of the first ratio.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.client_pod import ClientPod, run_client_pod
from support.cluster import Kubectl, script
from support.cluster_speed import (
    apply_until_available,
    apply_until_servable,
    operator_size,
    reactions,
    waking,
)
from support.models_server import HOST, ModelsServer, add_odd_files, run_models_server
from support.release import Release, deploy, lab_profile, namespace
from support.tiny_models import build_tiny_models

ROUNDS = 5
FAULTS = 10
AT_ZERO, RUNNING = 200, 5


@contextmanager
def team() -> Iterator[Kubectl]:
    """A namespace for the while."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    Kubectl().apply(namespace(name))
    try:
        yield Kubectl(name)
    finally:
        Kubectl()("delete", "namespace", name, "--wait=false")


def prepare(folder: Path) -> tuple[Release, ModelsServer]:
    """A cluster with the product and a file server in it."""
    up = script("up.sh")
    if up.returncode:
        raise SystemExit(up.stderr)
    release = Release()
    fault = deploy(release)
    if fault:
        raise SystemExit(fault)
    run_client_pod()
    build_tiny_models(folder)
    add_odd_files(folder)
    release.kubectl.apply(lab_profile([HOST]))
    run_models_server(folder)
    return release, ModelsServer(folder, ClientPod(release.url))


def measure(release: Release, files: ModelsServer) -> Iterator[tuple[str, float, str, float]]:
    """What, figure, unit, goal; a goal is the most that is allowed."""
    source = files.source("tiny-chat.gguf")
    with team() as inside:
        ours, bare = [], []
        for number in range(ROUNDS):
            ours.append(apply_until_servable(inside, f"m{number}", source))
            bare.append(apply_until_available(inside, f"m{number}"))
            if number:
                inside("delete", "servedmodel", f"m{number}", "--wait=true")
        yield "apply to Servable, tiny model, median", statistics.median(ours), "s", 15
        yield "  a bare Deployment of the same pods", statistics.median(bare), "s", float("inf")
    with team() as inside:
        woken = [waking(release, inside, f"w{number}", source) for number in range(ROUNDS)]
        calls = statistics.median(each.call_seconds for each in woken)
        starts = statistics.median(each.start_seconds for each in woken)
        yield "call of a sleeping model to its answer, median", calls, "s", float("inf")
        yield "  from the start of its container", starts, "s", 4
    with team() as inside:  # what is watched there is this one model's
        apply_until_servable(inside, "m0", source)
        told = list(reactions(release, inside, "m0", FAULTS))
        status = max(each.status_seconds for each in told)
        router = max(each.router_seconds for each in told)
        yield f"Pod changed to status written, worst of {len(told)}", status, "s", 2
        yield f"EndpointSlice changed to discovery, worst of {len(told)}", router, "s", 1
    with team() as inside:
        size = operator_size(release, inside, source, AT_ZERO, RUNNING)
    many = f"{AT_ZERO} models at zero, {RUNNING} running"
    yield f"{many}: restart to all told", size.restart_seconds, "s", 60
    yield f"{many}: operator's memory", size.memory_mebibytes, "MiB", 150
    yield f"{many}: writes in an idle minute", size.idle_writes, "", 0
    yield f"{many}: reads in an idle minute", size.idle_reads, "", 30


def main() -> int:
    """Run all rows and print each as it comes."""
    met = True
    with tempfile.TemporaryDirectory() as folder:
        release, files = prepare(Path(folder))
        for what, figure, unit, goal in measure(release, files):
            met = met and figure <= goal
            aim = "" if goal == float("inf") else f"goal <= {goal:g} {unit}"
            verdict = "" if not aim else ("met" if figure <= goal else "NOT MET")
            print(f"{what:62} {figure:8.2f} {unit:4} {aim:16} {verdict}", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
