"""What is done once for all processes of a test session, whichever of them comes first."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

DONE = "done"


def once(folder: Path, name: str, do: Callable[[], str]) -> None:
    """Have it done; the others wait meanwhile. What went wrong, `do` returns: it fails all of them."""
    with (folder / f"once-{name}").open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        told = file.read()
        if not told:
            try:
                told = do() or DONE
            except BaseException as error:
                told = f"{name}: {error or type(error).__name__}"
                raise
            finally:
                file.write(told)
    assert told == DONE, told
