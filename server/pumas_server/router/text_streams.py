"""A provider's text stream as pieces of text: decoder and projection fed from a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pumas_server.contract.bounds import MAX_RESPONSE_BYTES
from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.results import FinishReason
from pumas_server.provider.projection import TextForm, TextProjection
from pumas_server.provider.sse import SseDecoder
from pumas_server.router.sessions import Session
from pumas_server.router.upstream import read_chunk
from pumas_server.router.upstream_answer import UpstreamAnswer


class TextStream:
    """One accepted answer of a provider; iterate `pieces` to the end, then ask for the `reason`."""

    def __init__(self, session: Session, answer: UpstreamAnswer, form: TextForm) -> None:
        self._session = session
        self._answer = answer
        self._decoder = SseDecoder()
        self._projection = TextProjection(form)
        self._reason: FinishReason | None = None

    async def pieces(self) -> AsyncIterator[list[str]]:
        """The nonempty texts of the events in one chunk, chunk after chunk.

        Ends only after a coherent terminal choice, `[DONE]` and the clean end of the body; raises
        `ContractError` or `SessionEnded` otherwise, after what came before the fault was yielded.
        """
        received = 0
        while chunk := await read_chunk(self._session, self._answer):
            received += len(chunk)
            texts: list[str] = []
            fault: ContractError | None = None
            try:
                if received > MAX_RESPONSE_BYTES:
                    raise ContractError(
                        Code.RESPONSE_LIMIT,
                        f"the provider's stream is over the limit of {MAX_RESPONSE_BYTES} bytes",
                    )
                for payload in self._decoder.feed(chunk):
                    if text := self._projection.feed(payload):
                        texts.append(text)
            except ContractError as error:
                fault = error
            if texts:
                yield texts
            if fault is not None:
                raise fault
        self._reason = self._projection.end(at_boundary=self._decoder.at_boundary())

    def reason(self) -> FinishReason:
        """Why the text ended. Only a stream that was iterated to its end has one."""
        if self._reason is None:
            raise RuntimeError("the stream was not read to its end")
        return self._reason
