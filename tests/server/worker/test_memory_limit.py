"""The kernel's count of processes that it ended for want of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_server.worker.memory_limit import oom_kills

VERSION_2 = "low 0\nhigh 0\nmax 41\noom 3\noom_kill 2\noom_group_kill 0\n"
VERSION_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"


@pytest.mark.parametrize(
    ("name", "content", "count"),
    [
        ("memory.events", VERSION_2, 2),
        ("memory/memory.oom_control", VERSION_1, 7),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0),
    ],
)
def test_the_count_is_read(tmp_path: Path, name: str, content: str, count: int) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    assert oom_kills(tmp_path) == count


def test_where_the_kernel_counts_nothing_nothing_was_counted(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) == 0


def test_this_machine_has_a_count_that_can_be_read() -> None:
    assert oom_kills() >= 0
