"""Which tests run one after another in one test process: those of a file that names an `xdist_group`.

pytest-xdist 3.8 tells its scheduler of a group by renaming the tests, which pytest 9.2 ignores: the
marks would say nothing, silently. So the scheduler looks for the mark where it is written.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadGroupScheduling

_MARK = re.compile(r"\bxdist_group\(\"([\w-]+)\"\)")


class GroupsOfFiles(LoadGroupScheduling):
    """A file's tests go where its group goes; tests of other files go anywhere."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _group(self.config.rootpath / file) or nodeid


@cache
def _group(file: Path) -> str | None:
    found = _MARK.search(file.read_text())
    return found[1] if found else None
