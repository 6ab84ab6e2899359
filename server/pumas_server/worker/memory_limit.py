"""How often the kernel has ended a process of this container because memory ran out.

It counts that in the container's control group. Where a kubelet has the whole group ended at once,
nobody is left here to ask, and the kubelet itself tells; elsewhere the engine dies of a plain
SIGKILL, and only this count says why.
"""

from __future__ import annotations

from pathlib import Path

CONTROL_GROUP = Path("/sys/fs/cgroup")
#: Of version 2, and of version 1.
COUNTERS = ("memory.events", "memory/memory.oom_control")
_COUNT = "oom_kill"


def oom_kills(control_group: Path = CONTROL_GROUP) -> int:
    """The count; 0 where the kernel keeps none."""
    for name in COUNTERS:
        file = control_group / name
        if file.is_file():
            lines = (line.split() for line in file.read_text("ascii").splitlines())
            counts = dict(line for line in lines if len(line) == 2)
            return int(counts.get(_COUNT, "0"))
    return 0
