"""Incremental decoder of server-sent events: bytes in, `data` payloads out.

`feed` takes any chunk and yields the events that it completes; `at_boundary` says whether the
stream stands between events. Lines end in LF, CR or CRLF (never in U+2028 or U+0085, which are
text); a leading byte order mark, comments and fields other than `data` are passed over; several
`data` lines join with LF. An event ends only with a blank line. Memory is bounded by one event.
"""

from __future__ import annotations

from collections.abc import Iterator

from pumas_server.contract.bounds import MAX_STREAM_EVENT_BYTES
from pumas_server.contract.errors import Code, ContractError

_BOM = b"\xef\xbb\xbf"
_DATA = b"data"


class SseDecoder:
    """One stream's decoder state.

    Raises `ContractError`: `response_limit` for an event over the bound, `invalid_provider_result`
    for data that is not UTF-8. After raising it is not to be used again.
    """

    def __init__(self, max_event_bytes: int = MAX_STREAM_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._open = False
        self._after_cr = False
        self._first_line = True

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The payloads of the events that `chunk` completes.

        Lazy, so that the events before a fault are had before it is raised, however the stream
        was cut into chunks. Consume it to its end before the next call.
        """
        start = 0
        if self._after_cr and chunk:
            # The CR already ended its line; an LF right behind it belongs to that ending.
            start = 1 if chunk[0] == 0x0A else 0
            self._after_cr = False
        # Either mark is looked for again only behind the last one found: linear in the chunk.
        cr, lf = chunk.find(b"\r", start), chunk.find(b"\n", start)
        while cr >= 0 or lf >= 0:
            end = min(cr, lf) if cr >= 0 and lf >= 0 else max(cr, lf)
            self._extend(chunk[start:end])
            start = end + 1
            if end == cr:
                self._after_cr = start == len(chunk)
                if lf == start:
                    start += 1
                cr = chunk.find(b"\r", start)
            if 0 <= lf < start:
                lf = chunk.find(b"\n", start)
            event = self._end_line()
            if event is not None:
                yield event
        self._extend(chunk[start:])

    def at_boundary(self) -> bool:
        """Whether nothing of an unfinished event is held: the only clean place to end."""
        return not self._open and not self._line

    def _extend(self, piece: bytes) -> None:
        self._line += piece
        # A line of no event is bounded too: a comment without an end must not fill the memory.
        if len(self._line) > self._max + len(_DATA) + 2 + len(_BOM):
            raise _over_limit(self._max)

    def _end_line(self) -> str | None:
        line = bytes(self._line)
        self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if name == _DATA:
            value = value.removeprefix(b" ")
            self._size += len(value) + (1 if self._data else 0)
            if self._size > self._max:
                raise _over_limit(self._max)
            self._data.append(value)
            self._open = True
        return None

    def _dispatch(self) -> str | None:
        if not self._open:
            return None
        payload = b"\n".join(self._data)
        self._data.clear()
        self._size, self._open = 0, False
        try:
            return payload.decode("utf-8")
        except UnicodeDecodeError:
            raise ContractError(
                Code.INVALID_PROVIDER_RESULT, "the provider's stream is not UTF-8"
            ) from None


def _over_limit(limit: int) -> ContractError:
    return ContractError(
        Code.RESPONSE_LIMIT, f"a provider event is over the limit of {limit} bytes"
    )
