"""The README's commands do what it says."""

from __future__ import annotations

import os
import re
import subprocess

import psutil
import pytest

from support.one_cpu import on_one_cpu
from support.readme import ROOT, at_terminal, missing, section, steps

README = (ROOT / "README.md").read_text()

#: Run by whoever runs this test; running them again would be running it within itself.
NOT_AGAIN = ("make install", "make test", "make check")


#: Other tests run tiny models too, out of folders of their own.
OF_THE_README = ("gemma", "examples/local/tiny.yaml", f"{ROOT}/.cache/models/tiny-")


def pumas_processes() -> list[str]:
    """Command lines of every process that belongs to the README's models."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if (
            any(mark in line for mark in OF_THE_README)
            and ("pumas" in line or "llama" in line)
            and not in_a_pod(process.pid)
        ):
            found.append(line)
    return found


def in_a_pod(process: int) -> bool:
    """Whether it runs in a container of the test cluster, which the machine shows too."""
    try:
        return os.readlink(f"/proc/{process}/ns/pid") != os.readlink("/proc/self/ns/pid")
    except OSError:  # no Linux, or the process has ended
        return False


@pytest.mark.xdist_group("readme")
def test_readme_commands() -> None:
    # What needs a cluster is run by tests/cluster/test_readme_cluster.py.
    wanted = steps(README.replace(section(README, "On Kubernetes"), ""))
    assert [s.command for s in wanted[:2]] == ["make install", "make run"]
    with at_terminal("make run") as serving, at_terminal("make tiny") as tiny:
        serving.read_until("curl -sN", 150)
        tiny.read_until("AVAILABLE CAPABILITIES", 150)
        for step in wanted:
            if step.command in NOT_AGAIN:
                continue
            if step.command in ("make run", "make tiny"):
                output = (serving if step.command == "make run" else tiny).output
            else:
                output = subprocess.run(
                    ["bash", "-c", step.command],
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    timeout=100,
                ).stdout
            line = missing(step.shown, output)
            assert line is None, f"`{step.command}` did not print {line!r}; it printed:\n{output}"
        assert serving.interrupt() == 0, serving.output
        assert tiny.interrupt() == 0, tiny.output
    assert pumas_processes() == []


@pytest.mark.xdist_group("readme")
def test_make_run_once() -> None:
    # As at a prompt: a make that runs within another (`make test`) would tell of its folders.
    environment = {name: os.environ[name] for name in os.environ if "MAKE" not in name}
    with on_one_cpu():
        done = subprocess.run(
            ["make", "run", "ONCE=1", "PORT=0"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"completion: .+", done.stdout.splitlines()[-1])
    assert pumas_processes() == []


def test_links_lead_somewhere() -> None:
    for name in (
        "README.md",
        "ARCHITECTURE.md",
        "docs/local.md",
        "docs/install.md",
        "docs/cluster.md",
    ):
        page = ROOT / name
        for target in re.findall(r"\]\(([^)#][^)]*)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{name} links to {target}"
