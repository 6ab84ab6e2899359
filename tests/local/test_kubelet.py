"""The kubelet, with containers of a few lines: what they do, and what it makes of them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from pumas_crds.facts import FileFacts, Inspection
from pumas_crds.vocabulary import Reason
from pumas_local import kubelet as kubelet_module
from pumas_local.kubelet import Kubelet, LocalPod
from pumas_local.pod import Deployment
from pumas_operator.observation import PodObservation
from support.eventually import eventually
from support.scripted_pod import probe, scripted_deployment
from support.worker import is_running

FILE = FileFacts(architecture="tiny")
FOUND = f"leave(file={FILE.model_dump(by_alias=True)!r})"


@dataclass
class Running:
    """A pod, its folder, and everything that it reported."""

    pod: LocalPod
    folder: Path
    reports: list[PodObservation] = field(default_factory=list)

    @property
    def now(self) -> PodObservation:
        return self.pod.observation

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def write(self, name: str, text: str) -> None:
        """Replace a file that a script reads, at once."""
        (self.folder / "new").write_text(text)
        (self.folder / "new").replace(self.folder / name)

    async def until(self, holds: Callable[[PodObservation], bool], what: str) -> PodObservation:
        return await eventually(lambda: self.now if holds(self.now) else None, what)

    async def pids(self, count: int) -> list[int]:
        """The processes that the scripts have noted."""
        noted = await eventually(
            lambda: lines if len(lines := self.lines("pids")) >= count else None, "pids"
        )
        return [int(line) for line in noted]


@asynccontextmanager
async def running(data: Path, deployment: Deployment) -> AsyncIterator[Running]:
    reports: list[PodObservation] = []
    pod = Kubelet(data).create(deployment, {}, reports.append)
    await pod.start()
    try:
        yield Running(pod, data / "run" / "scripted-0", reports)
    finally:
        await pod.stop()


@pytest.fixture(autouse=True)
def short_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_module, "FIRST_BACK_OFF_SECONDS", 0.05)


async def test_init_containers_run_before_and_tell_of_the_file(tmp_path: Path) -> None:
    deployment = scripted_deployment(
        "note('order', 'server'); serve()",
        fetch=f"note('order', 'fetch'); {FOUND}",
        readinessProbe=probe("/ready"),
    )
    async with running(tmp_path, deployment) as it:
        now = await it.until(lambda now: now.ready, "ready")
        assert now.inspection == Inspection(file=FILE)
        assert not now.fetch_failed and now.restarts == 0
        assert it.lines("order") == ["fetch", "server"]
        assert not (it.folder / "termination-log").exists()


async def test_an_init_container_with_a_permanent_fault_is_not_run_again(tmp_path: Path) -> None:
    fault = {"reason": "NotAModel", "message": "It is a picture."}
    fetch = f"note('runs'); leave(error={fault!r}); sys.exit(1)"
    async with running(tmp_path, scripted_deployment("note('server')", fetch=fetch)) as it:
        now = await it.until(lambda now: now.fetch_failed, "the fetch has failed")
        assert now.inspection and now.inspection.error
        assert now.inspection.error.reason is Reason.NOT_A_MODEL
        await asyncio.sleep(0.5)  # ten times the back-off: nothing may happen in it
        assert it.lines("runs") == [""] and not it.lines("server")


async def test_any_other_failure_of_an_init_container_is_tried_again(tmp_path: Path) -> None:
    fetch = f"note('runs'); len(read('runs')) < 3 and sys.exit(3); {FOUND}"
    async with running(tmp_path, scripted_deployment("serve()", fetch=fetch)) as it:
        await it.until(lambda now: now.ready, "ready")
        assert len(it.lines("runs")) == 3
        assert any(report.fetch_failed for report in it.reports) and not it.now.fetch_failed


async def test_a_crashing_container_is_restarted_with_a_growing_back_off(tmp_path: Path) -> None:
    deployment = scripted_deployment("note('starts', time.monotonic()); sys.exit(7)")
    async with running(tmp_path, deployment) as it:
        await it.until(lambda now: now.restarts >= 5, "five restarts")
        starts = [float(line) for line in it.lines("starts")]
        gaps = [after - before for before, after in pairwise(starts)]
        for count, gap in enumerate(gaps[:4]):
            assert gap >= 0.05 * 2**count
        fault = it.now.engine_fault
        assert fault and fault.reason is Reason.ENGINE_FAILED
        assert fault.message == "The process ended with status 7."


def test_the_back_off_doubles_from_one_second_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    delays = kubelet_module.back_off()
    assert [next(delays) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_a_container_killed_by_a_signal_is_restarted_and_says_so(tmp_path: Path) -> None:
    body = "note('pids', os.getpid()); serve()"
    deployment = scripted_deployment(body, readinessProbe=probe("/ready"))
    async with running(tmp_path, deployment) as it:
        await it.until(lambda now: now.ready, "ready")
        (pid,) = await it.pids(1)
        os.kill(pid, signal.SIGKILL)
        await it.until(lambda now: now.restarts == 1, "a restart")
        faults = [report.engine_fault for report in it.reports if report.engine_fault]
        assert faults[0].message == "The process was ended by signal 9."
        now = await it.until(lambda now: now.ready, "ready again")
        assert now.engine_fault is None


async def test_a_serving_containers_own_words_are_its_fault(tmp_path: Path) -> None:
    fault = {"reason": "MissingRankingHead", "message": "No head."}
    deployment = scripted_deployment(f"leave(error={fault!r}); sys.exit(1)")
    async with running(tmp_path, deployment) as it:
        now = await it.until(lambda now: now.engine_fault is not None, "a fault")
        assert now.engine_fault and now.engine_fault.reason is Reason.MISSING_RANKING_HEAD


async def test_an_illegible_termination_log_is_removed_and_not_believed(tmp_path: Path) -> None:
    body = "open(run + '/termination-log', 'w').write('{oops'); sys.exit(1)"
    async with running(tmp_path, scripted_deployment(body)) as it:
        now = await it.until(lambda now: now.engine_fault is not None, "a fault")
        assert now.engine_fault and now.engine_fault.reason is Reason.ENGINE_FAILED


def is_ready(it: Running, expected: bool) -> bool:
    return it.now.ready is expected


async def test_readiness_follows_the_probe(tmp_path: Path) -> None:
    deployment = scripted_deployment(
        "note('ready', 503); serve()",
        readinessProbe=probe("/ready"),
        startupProbe=probe("/up", 200),
    )
    async with running(tmp_path, deployment) as it:
        await eventually(lambda: it.pod.ports, "a started container")
        assert not it.now.ready
        for status, expected in (("200", True), ("503", False), ("204", True)):
            it.write("ready", status)
            await eventually(partial(is_ready, it, expected), f"ready is {expected}")
        assert it.now.restarts == 0


async def test_a_container_that_fails_its_liveness_probe_is_restarted(tmp_path: Path) -> None:
    deployment = scripted_deployment(
        "note('pids', os.getpid()); serve()",
        startupProbe=probe("/up", 200),
        livenessProbe=probe("/alive"),
    )
    async with running(tmp_path, deployment) as it:
        (first,) = await it.pids(1)
        await it.until(lambda now: now.ready, "ready")
        it.write("alive", "500")
        await it.until(lambda now: now.restarts >= 1, "a restart")
        assert not is_running(first)
        faults = [report.engine_fault for report in it.reports if report.engine_fault]
        assert faults[0].message == "It no longer answered its liveness probe."
        it.write("alive", "200")
        await it.until(lambda now: now.ready, "ready again")


async def test_a_container_that_never_starts_is_restarted(tmp_path: Path) -> None:
    deployment = scripted_deployment("time.sleep(60)", startupProbe=probe("/up", 10))
    async with running(tmp_path, deployment) as it:
        now = await it.until(lambda now: now.restarts == 1, "a restart")
        assert now.engine_fault
        assert now.engine_fault.message == "It was not ready within 0.5 seconds of its start."


async def test_a_containers_ports_are_its_own_before_it_listens(tmp_path: Path) -> None:
    note = "note('ports', os.environ['ENGINE_PORT'] + ' ' + os.environ['SUPERVISOR_PORT'])"
    body = f"{note}\nif read('ports').count(' ') == 1: sys.exit(1)\ntime.sleep(60)"
    async with running(tmp_path, scripted_deployment(body)) as it:
        noted = await eventually(
            lambda: lines if len(lines := it.lines("ports")) == 2 else None, "two runs"
        )
        first, second = ([int(port) for port in line.split()] for line in noted)
        for port in second:
            with socket.socket() as other, pytest.raises(OSError) as caught:
                other.bind(("127.0.0.1", port))
            assert caught.value.errno == errno.EADDRINUSE
        for port in set(first) - set(second):
            with socket.socket() as other:
                other.bind(("127.0.0.1", port))


async def test_a_container_whose_folder_was_removed_starts_in_a_new_one(tmp_path: Path) -> None:
    body = "note('pids', os.getpid()); time.sleep(60)"
    async with running(tmp_path, scripted_deployment(body)) as it:
        (first,) = await it.pids(1)
        shutil.rmtree(tmp_path / "run")
        os.kill(first, signal.SIGKILL)
        (second,) = await it.pids(1)
        assert second != first


async def test_sigterm_first(tmp_path: Path) -> None:
    body = """
        def end(*_): note("ended"); os._exit(0)
        signal.signal(signal.SIGTERM, end)
        note("pids", os.getpid())
        serve()
    """
    async with running(tmp_path, scripted_deployment(body)) as it:
        (pid,) = await it.pids(1)
        ended = it.folder / "ended"
        released: list[bool] = []
        it.pod._folder.release = lambda: released.append(ended.exists())  # type: ignore[method-assign]
        await it.pod.stop()
        assert released == [True]
        assert not is_running(pid)
        assert it.now.terminating and not it.now.ready


async def test_a_container_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    body = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("pids", os.getpid())
        serve()
    """
    async with running(tmp_path, scripted_deployment(body, grace=0.5)) as it:
        (pid,) = await it.pids(1)
        began = time.monotonic()
        await it.pod.stop()
        assert 0.5 <= time.monotonic() - began < 5
        assert not is_running(pid)


async def test_a_second_stop_request_ends_the_grace(tmp_path: Path) -> None:
    body = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("pids", os.getpid())
        serve()
    """
    async with running(tmp_path, scripted_deployment(body, grace=60)) as it:
        (pid,) = await it.pids(1)
        stopping = asyncio.create_task(it.pod.stop())
        await it.until(lambda now: now.terminating, "terminating")
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(stopping), 5)
        assert not is_running(pid)


GRANDCHILD = """
    child = subprocess.Popen([sys.executable, "-c", "import signal, time;"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE)
    child.stdout.readline()
    note("pids", child.pid)
"""


async def test_grandchildren_do_not_survive_a_stop(tmp_path: Path) -> None:
    async with running(tmp_path, scripted_deployment(GRANDCHILD + "\n    serve()")) as it:
        (grandchild,) = await it.pids(1)
        await it.pod.stop()
        await eventually(lambda: not is_running(grandchild), "the grandchild is gone", 2)


async def test_grandchildren_do_not_survive_their_containers_exit(tmp_path: Path) -> None:
    body = GRANDCHILD + "\n    child.returncode = 0; sys.exit(1)"
    async with running(tmp_path, scripted_deployment(body)) as it:
        (grandchild, *_) = await it.pids(1)
        await it.until(lambda now: now.restarts >= 1, "a restart")
        await eventually(lambda: not is_running(grandchild), "the grandchild is gone", 2)


async def test_stop_during_the_back_off_and_during_an_init_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubelet_module, "FIRST_BACK_OFF_SECONDS", 60)
    async with running(tmp_path / "a", scripted_deployment("sys.exit(1)")) as it:
        await it.until(lambda now: now.restarts == 1, "a crash")
        await asyncio.wait_for(it.pod.stop(), 5)
    fetch = "note('pids', os.getpid()); time.sleep(60)"
    async with running(tmp_path / "b", scripted_deployment("serve()", fetch=fetch)) as it:
        (pid,) = await it.pids(1)
        await asyncio.wait_for(it.pod.stop(), 5)
        assert not is_running(pid)


async def test_environment_output_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("PUMAS_TOKENS_FILE", "/secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    body = """
        print("to the log", flush=True)
        leader = os.getpgid(0) == os.getpid()
        seen = {"leader": leader, "session": os.getsid(0), "cwd": os.getcwd(), **os.environ}
        seen["python"] = sys.prefix
        note("seen", json.dumps(seen)); serve()
    """
    deployment = scripted_deployment(body, readinessProbe=probe("/ready"))
    async with running(tmp_path, deployment) as it:
        await it.until(lambda now: now.ready, "ready")
        seen = json.loads(it.lines("seen")[0])
        assert it.pod.ports
        assert seen["POD_IP"] == "127.0.0.1"
        assert seen["ENGINE_PORT"] == str(it.pod.ports.engine)
        assert seen["SUPERVISOR_PORT"] == str(it.pod.ports.supervisor)
        assert seen["PUMAS_RUN"] == seen["cwd"] == str(it.folder)
        assert seen["PUMAS_MODELS"] == str(tmp_path / "models")
        assert seen["CUDA_VISIBLE_DEVICES"] == "3"
        assert "PYTHONWARNINGS" not in seen and "PUMAS_TOKENS_FILE" not in seen
        assert seen["leader"] and seen["session"] == os.getsid(0)
        assert seen["python"] == sys.prefix
        assert it.lines("server.log") == ["to the log"]
        assert stat.S_IMODE(it.folder.stat().st_mode) == 0o700
    assert sorted(entry.name for entry in it.folder.iterdir()) == [".lock", "server.log"]


async def test_a_process_that_cannot_be_started_is_a_fault(tmp_path: Path) -> None:
    deployment = scripted_deployment("#" * 200_000)  # longer than any argument may be
    async with running(tmp_path, deployment) as it:
        now = await it.until(lambda now: now.engine_fault is not None, "a fault")
        assert now.engine_fault
        assert now.engine_fault.message.startswith("The process could not be started: ")


KILLED_KUBELET = """
import asyncio, sys
from pathlib import Path
from pumas_local.kubelet import Kubelet
from support.scripted_pod import scripted_deployment
async def main():
    deployment = scripted_deployment("note('pids', os.getpid()); serve()")
    await Kubelet(Path(sys.argv[1])).create(deployment, {}, lambda _: None).start()
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of a parent's death")
async def test_a_killed_kubelet_leaves_no_process(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", KILLED_KUBELET, str(tmp_path)]
    with subprocess.Popen(command, env=environment) as kubelet:
        try:
            pids = tmp_path / "run" / "scripted-0" / "pids"
            await eventually(lambda: pids.exists() and pids.read_text(), "a container")
            pid = int(pids.read_text())
            assert psutil.Process(pid).ppid() == kubelet.pid
        finally:
            kubelet.kill()
    await eventually(lambda: not is_running(pid), "the container is gone")
