"""What lives as long as the process, kept out of the garbage collector's sight.

A full collection looks at every object there is. Modules, schemas and routes are near a hundred
thousand of them and never garbage; looking at them holds up every call for nearly a tenth of a
second, and the more often the more calls there are.
"""

from __future__ import annotations

import gc


def set_lasting_apart() -> None:
    """Collect what is garbage now, and never look again at what is left.

    For a process that has made all it needs before its first call; once in its life.
    """
    gc.collect()
    gc.freeze()
