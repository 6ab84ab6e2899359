"""Logs as JSON lines on stderr: one object a line, whatever a value holds."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

#: The logger of operation lines, and the attribute of a log record that holds their members.
OPERATIONS = "pumas.operations"
FIELDS = "pumas_fields"


class JsonFormatter(logging.Formatter):
    """Renders a log record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        fields: dict[str, object] = getattr(record, FIELDS, {})
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        line |= fields or {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logging(stream: TextIO = sys.stderr) -> None:
    """Send operation lines, and the warnings of everything else, to `stream`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(OPERATIONS).setLevel(logging.INFO)
