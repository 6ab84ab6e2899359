"""One JSON object of a pipeline's folder, read member by member, each checked as it is read.

A member is named with its file in every fault. A number or a flag of the wrong type, or out of its
range, is `NOT_A_MODEL`; a value that the format knows and this release does not is
`NOT_IMPLEMENTED`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import orjson

from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import HeaderFault, no_model
from pumas_server.worker.legible import legible

CONFIG_BYTES = 1 << 20
"""The largest known configuration has some 8 KiB."""
_SHOWN = 80

Word = TypeVar("Word", bound=str)


def not_built(message: str) -> HeaderFault:
    """The fault of a well-formed folder that asks for what this release does not do."""
    return HeaderFault(Reason.NOT_IMPLEMENTED, message)


def shown(value: object) -> str:
    """A stranger's JSON value, fit for a message."""
    return legible(orjson.dumps(value).decode(), _SHOWN)


@dataclass(frozen=True, slots=True)
class JsonConfig:
    """The members of one JSON object, and the name of the file that they are from."""

    file: str
    members: Mapping[str, object]

    @classmethod
    def read(cls, file: str, data: bytes) -> Self:
        """Parse the bytes; raises `HeaderFault` for what is no JSON object."""
        try:
            value: object = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise no_model(f"{file} is not valid JSON") from error
        if not isinstance(value, dict):
            raise no_model(f"{file} is not a JSON object")
        return cls(file, value)

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """An integer of `low` to `high`; absent or null is the default, if there is one."""
        value = self._value(key, default)
        if type(value) is not int or not low <= value <= high:
            raise self._wrong(key, value, f"an integer of {low} to {high}")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A finite number above `low` and up to `high`."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not isinstance(value, int | float):
            raise self._wrong(key, value, "a number")
        if not math.isfinite(value) or not low < value <= high:
            raise self._wrong(key, value, f"a number above {low:g} and up to {high:g}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def word(self, key: str, known: Collection[Word], default: Word | None = None) -> Word:
        """One of the words that this release knows; any other is refused with those it does."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        for word in known:
            if word == value:
                return word
        raise not_built(f"{self.file}: {key} is {shown(value)}; supported: {', '.join(known)}")

    def length(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """How many elements an array has."""
        value = self.members.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self._wrong(key, value, "an array")
        if not low <= len(value) <= high:
            raise no_model(f"{self.file}: {key} has {len(value)} elements, not {low} to {high}")
        return len(value)

    def refuse(self, keys: Collection[str]) -> None:
        """Refuse the first of these options that is set: neither absent, null nor false."""
        for key in keys:
            value = self.members.get(key)
            if value is not None and value is not False:
                raise not_built(f"{self.file}: {legible(key, _SHOWN)} is not supported")

    def refuse_others(self, known: Collection[str]) -> None:
        """Refuse the first option that is set and is none of `known`.

        A key that begins with `_` is a note of the writer's and no option.
        """
        self.refuse([key for key in self.members if key not in known and key[:1] != "_"])

    def _value(self, key: str, default: object) -> object:
        value = self.members.get(key)
        return default if value is None else value

    def _wrong(self, key: str, value: object, wanted: str) -> HeaderFault:
        if value is None:
            return no_model(f"{self.file}: {key} is missing")
        return no_model(f"{self.file}: {key} is {shown(value)}, not {wanted}")
