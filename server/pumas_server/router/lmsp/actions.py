"""Load and unload, each once for its Idempotency-Key.

What was decided about a model is kept under the key and given again, whatever is true by then: to
learn the present state a client reads the model, to try a failed load again it takes a new key.
What was not carried out, because it could not be or by a fault of ours, is not kept: the same key
may be sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from pumas_crds.vocabulary import LoadState
from pumas_server.contract.errors import Outcome
from pumas_server.contract.redaction import redact
from pumas_server.contract.strict_json import quoted
from pumas_server.router.lmsp.action import Action
from pumas_server.router.lmsp.catalogue import Entry
from pumas_server.router.lmsp.idempotency_key import fingerprint
from pumas_server.router.lmsp.load_control import LoadControl, ModelGone, NotLoadable
from pumas_server.router.lmsp.model_object import with_state
from pumas_server.router.lmsp.problems import (
    ProblemCode,
    ProblemError,
    answer_object,
    canonical,
)
from pumas_server.router.lmsp.request_records import (
    Claimed,
    InProgress,
    RecordsUnavailable,
    Replayed,
    RequestRecords,
    Reused,
    StoredAnswer,
)
from pumas_server.router.steering import Unsteerable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an action is answered with."""

    status: int
    body: str
    replayed: bool = False
    """It is the answer that an earlier request got."""


class Actions:
    """Carries actions out. `find` looks an id up in the present catalogue."""

    def __init__(
        self,
        control: LoadControl,
        records: RequestRecords,
        find: Callable[[str], Entry | None],
        pages: str,
    ) -> None:
        self._control = control
        self._records = records
        self._find = find
        self._pages = pages

    async def carry_out(
        self, action: Action, model_id: str, principal: str, key: str | None
    ) -> Answer:
        """The answer. Raises `ProblemError` for what is not kept under the key."""
        if key is None:
            return await self._decide(action, model_id)
        claim = await self._claim(principal, key, fingerprint("POST", action, model_id, {}))
        if isinstance(claim, Replayed):
            return Answer(claim.answer.status, claim.answer.body, replayed=True)
        try:
            answer = await self._decide(action, model_id)
        except BaseException:
            await self._records.release(claim)
            raise
        try:
            await self._records.store(claim, StoredAnswer(answer.status, answer.body))
        except RecordsUnavailable as error:
            # It is done all the same; a repetition does it again, which is harmless.
            _log.warning("the answer to a keyed request is not kept: %s", error)
        return answer

    async def _claim(self, principal: str, key: str, stands_for: str) -> Claimed | Replayed:
        try:
            claim = await self._records.claim(principal, key, stands_for)
        except RecordsUnavailable as error:
            _log.warning("a keyed request is refused: %s", error)
            raise ProblemError(
                ProblemCode.UNAVAILABLE,
                "the records of Idempotency-Keys cannot be reached; nothing was done",
            ) from None
        match claim:
            case InProgress():
                raise ProblemError(
                    ProblemCode.IDEMPOTENCY_IN_PROGRESS,
                    "another request with this Idempotency-Key is being answered",
                )
            case Reused():
                raise ProblemError(
                    ProblemCode.IDEMPOTENCY_KEY_REUSED,
                    "this Idempotency-Key was sent with another action, model or body",
                    param="Idempotency-Key",
                )
            case Claimed() | Replayed():
                return claim

    async def _decide(self, action: Action, model_id: str) -> Answer:
        entry = self._find(model_id)
        if entry is None:
            return self._not_found(model_id)
        uid = entry.record.model.metadata.uid
        try:
            match action:
                case Action.LOAD:
                    state = await self._control.load(uid)
                    status = 200 if state is LoadState.LOADED else 202
                case Action.UNLOAD:
                    state = await self._control.unload(uid)
                    status = 200
        except ModelGone:
            return self._not_found(model_id)
        except NotLoadable as error:
            refused = ProblemError(ProblemCode.MODEL_NOT_READY, str(error))
            body = answer_object(self._pages, refused, str(uuid4()))
            return Answer(refused.code.status, canonical(body))
        except Unsteerable as error:
            outcome = Outcome.UNKNOWN if error.begun else Outcome.NOT_ADMITTED
            detail = redact(str(error))
            raise ProblemError(ProblemCode.UNAVAILABLE, detail, outcome=outcome) from None
        return Answer(status, canonical(with_state(entry.object, state, self._pages)))

    def _not_found(self, model_id: str) -> Answer:
        error = model_not_found(model_id)
        body = answer_object(self._pages, error, str(uuid4()))
        return Answer(error.code.status, canonical(body))


def model_not_found(model_id: str) -> ProblemError:
    """No model has this id."""
    return ProblemError(ProblemCode.MODEL_NOT_FOUND, f"no model has the id {quoted(model_id)}")
