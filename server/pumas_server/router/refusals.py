"""What the router refuses for its limits, counted by reason."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The limit that a call or a connection ran into. Closed: it is a label of a metric."""

    CONNECTIONS = "connections"
    """As many connections are open as may be."""
    BAD_HTTP = "bad_http"
    """What came is not HTTP/1."""
    HEADER_TIMEOUT = "header_timeout"
    HEADER_SIZE = "header_size"
    TARGET_SIZE = "target_size"
    BODY_TIMEOUT = "body_timeout"
    BUFFER = "buffer"
    """No room for a body among the bytes that the process may hold."""
    MAX_IN_FLIGHT = "max_in_flight"
    MODEL_SHARE = "model_share"
    """The model has its share of the permits, and what is left is for others."""
    POD_IN_FLIGHT = "pod_in_flight"
    """Every pod of the model has as many calls as it may have."""
    MEDIA_CHECKS = "media_checks"
    BODY_READER = "body_reader"
    """The process that reads long bodies ended."""
    HELD = "held"
    """As many calls wait for models to load as may."""


class Refusals:
    """The counts of one router process. Every reason is there from the beginning."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Reason, 0)

    def count(self, reason: Reason) -> None:
        """Count one refusal."""
        self.counts[reason] += 1
