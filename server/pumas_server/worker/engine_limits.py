"""What an engine cannot do, told before it is started, so that nobody waits in vain. Pure.

An engine that has every mode and flag of `launch` has no limits to state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pumas_crds.vocabulary import EngineMode


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The modes and values that one engine has, of those that `launch` knows."""

    engine: str
    """Its name, for sentences."""
    modes: frozenset[EngineMode]
    slots: int
    """Calls that it works on at once."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Flags, or flags with a value (`-fa auto`), that it has not; and what that means, in words."""
    prompt_cache: bool = False
    """Whether it keeps prompts within a bound of memory."""

    def refuse_mode(self, mode: EngineMode) -> str | None:
        """Why it cannot work in this mode, in a sentence; None when it can."""
        if mode in self.modes:
            return None
        return f"The engine {self.engine} has no mode {mode}; the default engine has."

    def refuse_command(self, command: Sequence[str]) -> str | None:
        """Why it cannot be started so, in a sentence; None when it can."""
        for position, flag in enumerate(command):
            value = next(iter(command[position + 1 : position + 2]), "")
            if flag == "-np" and value.isdecimal() and int(value) > self.slots:
                return (
                    f"The engine {self.engine} works on no more calls at once than {self.slots}:"
                    f" engine.parallel of {value} cannot be promised."
                )
            for unknown in (flag, f"{flag} {value}"):
                if unknown in self.flags:
                    return f"The engine {self.engine} {self.flags[unknown]}."
        return None
