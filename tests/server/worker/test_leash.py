"""A leashed child ends with its parent, and is nothing but the command otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pumas_server.worker import leash
from pumas_server.worker.leash import EXIT_NOT_FOUND, EXIT_PARENT_GONE, leashed
from support.worker import is_running, until

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a child's life")

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
PARENT = """
import subprocess, sys, time
from pumas_server.worker.leash import leashed
child = subprocess.Popen(leashed(sys.argv[1:]), stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_it_becomes_the_command() -> None:
    ran = subprocess.run(
        leashed([sys.executable, "-c", "import os, sys; print(os.getpid()); sys.exit(7)"]),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 7
    process = subprocess.Popen(leashed(["sh", "-c", "echo $$"]), stdout=subprocess.PIPE)
    output, _ = process.communicate()
    assert int(output) == process.pid


@linux
def test_a_killed_parent_takes_it_along() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *SLEEPER], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.kill()
    parent.communicate()
    until(lambda: not is_running(child), "the end of the child", seconds=5)


@linux
def test_a_parent_that_died_before_the_question_is_noticed() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    command = [sys.executable, "-I", "-S", str(Path(leash.__file__)), "--parent", str(ended.pid)]
    ran = subprocess.run([*command, "echo", "ran"], capture_output=True)
    assert (ran.returncode, ran.stdout) == (EXIT_PARENT_GONE, b"")


def test_without_a_named_parent_whoever_started_it_is_the_parent() -> None:
    command = [sys.executable, "-I", "-S", str(Path(leash.__file__)), "echo", "ran"]
    assert subprocess.run(command, capture_output=True).stdout == b"ran\n"


def test_a_command_that_is_not_there() -> None:
    ran = subprocess.run(leashed(["no-such-command"]), capture_output=True, text=True)
    assert ran.returncode == EXIT_NOT_FOUND
    assert "no-such-command: No such file or directory" in ran.stderr
