"""Logs as JSON lines on stderr: one object a line, whatever a value holds."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from logging.handlers import MemoryHandler
from typing import TextIO

#: The logger of operation lines, and the attribute of a log record that holds their members, as
#: they stand in a JSON object. Every call writes one: it is not built up and taken apart again.
OPERATIONS = "pumas.operations"
FIELDS = "pumas_fields"

#: Past so many lines they are written after all.
_HELD_LINES = 10_000


class JsonFormatter(logging.Formatter):
    """Renders a log record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        members: str | None = getattr(record, FIELDS, None)
        if members is None:
            told = {"logger": record.name, "message": record.getMessage()}
            if record.exc_info:
                told["exception"] = self.formatException(record.exc_info)
            members = json.dumps(told)[1:-1]
        second, fraction = divmod(record.created, 1)
        return (
            f'{{"time": "{_second(int(second))}.{int(fraction * 1000):03d}+00:00", '
            f'"level": "{record.levelname.lower()}", {members}}}'
        )


@lru_cache(8)
def _second(since_epoch: int) -> str:
    """A second of UTC, as it is written: many lines are of the same."""
    return datetime.fromtimestamp(since_epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@contextmanager
def held_back() -> Iterator[None]:
    """Keep log lines until the block ends: text that streams to a terminal is not cut by them."""
    root = logging.getLogger()
    waiting = [
        MemoryHandler(_HELD_LINES, flushLevel=logging.CRITICAL + 1, target=handler)
        for handler in root.handlers
    ]
    direct, root.handlers = root.handlers, list(waiting)
    try:
        yield
    finally:
        root.handlers = direct
        for handler in waiting:
            handler.close()


def configure_logging(stream: TextIO = sys.stderr) -> None:
    """Send operation lines, and the warnings of everything else, to `stream`."""
    # Nothing of these is in a line, and finding them out for each costs as much as writing it
    # (the logging HOWTO's own list, *Optimization*).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(OPERATIONS).setLevel(logging.INFO)
