"""`make soak`: the router for a long time, with many streams, with faults, and with bad input.

Three parts, in this order: thousands of slow streams that are open together; half an hour of mixed
calls of which one in twenty meets a fault, each of them accounted for; floods of bad input beside
callers that call well. The router is a process of its own on one core, everybody else has the
other; a flood has what nobody else wants of it. Prints one table; exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from load.mix import Account
from load.processes import end_with_children
from load.scripts import ended, finished, generator, printed
from load.soaked import ROUTER, ROUTER_PORT, provider_counts, running
from load.trend import growth
from load.watched_router import Sample, WatchedRouter
from table import Row, print_rows

CHAT, OPERATIONS = "/v1/chat/completions", "/v1/model-operations"
#: And how many connections or calls each has to be, or it was none.
FLOODS = {
    "slow headers": 1000,
    "slow bodies": 1000,
    "32 MiB of blanks": 64,
    "32 MiB of values": 64,
    "32 MiB of text": 64,
    "malformed JSON": 10_000,
    "opened and dropped": 10_000,
    "vanishing callers": 300,
}

#: Of one slow stream, in a second.
EVENT_RATE = 0.1
#: Both kinds of streams open so many a second together (`load/streams.py`).
RAMP = 500
GOOD_RATE = 200
WARM_UP_CALLS = 1000
#: By how much a level may grow, and still be flat.
FLAT = 0.02
MOST_BYTES = 400_000_000
#: The router's descriptors for what is not a connection.
OTHER_DESCRIPTORS = 3000
_PROGRESS_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long each part is, and how large."""

    streams: int
    stream_minutes: float
    minutes: float
    rate: float
    flood_seconds: float
    rounds: int
    floods: tuple[str, ...]


def tell(sentence: str) -> None:
    """A line for whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)


def have_descriptors(streams: int) -> None:
    """Let every process of this run have as many as it needs. Raises `SystemExit`."""
    needed = 2 * streams + OTHER_DESCRIPTORS
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemExit(
            f"{streams} streams need {needed} file descriptors in a process, and the hard limit is"
            f" {hard}: raise it (`ulimit -Hn {needed}` as root), or ask for fewer with --streams"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class Soak:
    """One run of all parts."""

    def __init__(self, router: WatchedRouter, folder: Path, lengths: Lengths) -> None:
        self._router = router
        self._folder = folder
        self._lengths = lengths

    def warm_up(self) -> None:
        """Have every kind of call made once, then see what is open at rest."""
        # The first long body starts the process that reads them.
        httpx.post(f"{ROUTER}{OPERATIONS}", content=bytes(2_097_152), trust_env=False)
        printed("mixed_calls.py", ROUTER, 0, GOOD_RATE, WARM_UP_CALLS / GOOD_RATE)
        self._router.settle()
        tell(f"at rest the router has {self._router.descriptors} descriptors open")

    def streams(self) -> list[Row]:
        """Slow streams, half of them forwarded and half typed."""
        count, half = self._lengths.streams, self._lengths.streams // 2
        events = round(self._lengths.stream_minutes * 60 * EVENT_RATE) + 1
        counted = self._router.operations()
        began = time.monotonic()
        kinds = ((CHAT, "llm", half), (OPERATIONS, "talk", count - half))
        processes = [
            generator("streams.py", ROUTER, path, model, many, events, EVENT_RATE)
            for path, model, many in kinds
        ]
        samples, most_open = self._watch(f"{count} slow streams", processes)
        told = [finished(process) for process in processes]
        all_open = began + count / RAMP + 1 / EVENT_RATE
        steady = [s for s in samples if all_open < s.at < began + (events - 1) / EVENT_RATE]
        whole = sum(one["whole"] for one in told)
        lost = count - whole
        missing = count * events - sum(one["events"] for one in told)
        most = max(sample.resident_bytes for sample in samples)
        if lost or missing:
            for key, times in (self._router.operations() - counted).items():
                tell(f"the router counted: {key}: {times}")
        return [
            Row("slow streams, open at once", f"{most_open}", f"{count}", most_open >= count),
            Row("  lost streams, lost events", f"{lost}, {missing}", "0, 0", not lost + missing),
            Row("  RSS, most", f"{most / 1e6:.0f} MB", "400 MB", most <= MOST_BYTES),
            self._flat("  RSS while all are open", steady),
            *self._rests("  "),
        ]

    def mix(self) -> list[Row]:
        """Calls of every kind, of which one in twenty meets a fault."""
        minutes = self._lengths.minutes
        counted, seen = self._router.operations(), provider_counts()
        began = time.monotonic()
        process = generator(
            "mixed_calls.py", ROUTER, WARM_UP_CALLS, self._lengths.rate, minutes * 60
        )
        samples, _ = self._watch(f"mixed calls for {minutes:g} min", [process])
        account = Account(**finished(process))
        left = self._rests("  ")
        counted = self._router.operations() - counted
        new = {name: value - seen[name] for name, value in provider_counts().items()}
        due = {key: value for key, value in account.counted.items() if value}
        astray = {
            key: f"{counted[key]} for {due.get(key, 0)}"
            for key in counted.keys() | due.keys()
            if counted[key] != due.get(key, 0)
        }
        for sentence in account.told:
            tell(f"ended otherwise: {sentence}")
        for key, how in astray.items():
            tell(f"counted otherwise: {key}: {how}")
        warm = [sample for sample in samples if sample.at > began + minutes * 10]
        rate = account.calls / account.seconds
        unseen = account.admitted - new["received"]
        return [
            Row(f"mixed calls, {minutes:g} min", f"{account.calls:,} ({rate:.0f}/s)", "", True),
            Row("  of them with a fault", f"{account.faults / account.calls:.1%}", "", True),
            Row("  that ended otherwise than due", f"{account.wrong}", "0", not account.wrong),
            Row("  endings counted otherwise", f"{len(astray)} of {len(due)}", "0", not astray),
            Row("  admitted, and not seen by the provider", f"{unseen}", "0", not unseen),
            Row("  seen by it twice", f"{new['repeated']}", "0", not new["repeated"]),
            Row("  RSS, most", f"{max(s.resident_bytes for s in samples) / 1e6:.0f} MB", "", True),
            self._flat("  RSS after the first sixth", warm),
            *left,
        ]

    def floods(self) -> list[Row]:
        """Bad input, beside callers that call well; before and after each the same without it."""
        names = self._lengths.floods
        quiet: list[list[float]] = [[] for _ in names]
        flooded: list[list[float]] = [[] for _ in names]
        amounts, failed = [0.0] * len(names), [0.0] * len(names)
        left: list[list[Row]] = [[] for _ in names]
        for number in range(self._lengths.rounds):
            before = self._good()
            for index, name in enumerate(names):
                with ended(generator("flood.py", name, ROUTER_PORT, idle=True)) as flood:
                    assert flood.stdout is not None
                    flood.stdout.readline()
                    during = self._good()
                    flood.send_signal(signal.SIGTERM)
                    amount = finished(flood)
                amounts[index] += amount["count"]
                left[index] += self._rests("    ")
                after = self._good()
                failed[index] += before["failed"] + during["failed"] + after["failed"]
                quiet[index] += [before["p99_ms"], after["p99_ms"]]
                flooded[index].append(during["p99_ms"])
                tell(
                    f"floods, round {number + 1}: {name}: p99 {during['p99_ms']:.1f} ms, without it"
                    f" {before['p99_ms']:.1f} and {after['p99_ms']:.1f} ms; it was {amount}"
                )
                before = after
        rows = [Row(f"beside floods, {GOOD_RATE} good calls/s:", "", "", True)]
        for index, name in enumerate(names):
            with_it, without = statistics.median(flooded[index]), statistics.median(quiet[index])
            figure = f"{with_it:.1f} : {without:.1f} ms = {with_it / without:.1f}"
            enough = amounts[index] >= FLOODS[name]
            what = f"  {name} ({amounts[index]:,.0f}{'' if enough else ': too few'}), p99"
            rows += [
                Row(what, figure, "< 3", enough and with_it / without < 3),
                Row("    good calls that failed", f"{failed[index]:.0f}", "0", not failed[index]),
                next((row for row in left[index] if not row.met), left[index][0]),
            ]
        return rows

    def crashes(self) -> list[Row]:
        """Whether the router is the process of the beginning, and had no fault of its own."""
        faults = self._router.faults()
        for line in faults[:20]:
            tell(f"the router's log: {line}")
        inner = sum(
            count for key, count in self._router.operations().items() if "internal_error" in key
        )
        return [
            Row("  crashes, traces in its log", f"{len(faults)}", "0", not faults),
            Row("  calls that ended as internal_error", f"{inner}", "0", not inner),
        ]

    def _good(self) -> dict[str, float]:
        file = self._folder / "good.json"
        file.write_text(
            json.dumps({"model": "llm", "messages": [{"role": "user", "content": "hi"}]})
        )
        return printed("steady.py", ROUTER, CHAT, file, GOOD_RATE, self._lengths.flood_seconds)

    def _watch(
        self, what: str, processes: Sequence[subprocess.Popen[str]]
    ) -> tuple[list[Sample], int]:
        """A sample every second while the generators run, and the most calls that were open."""
        samples, most_open = [], 0
        began = told = time.monotonic()
        while any(process.poll() is None for process in processes):
            samples.append(self._router.sample())
            if samples[-1].at - told > _PROGRESS_SECONDS:
                told = samples[-1].at
                sessions = self._router.sessions()
                most_open = max(most_open, sessions)
                tell(
                    f"{what}: {told - began:.0f} s, {sessions} calls open, RSS"
                    f" {samples[-1].resident_bytes / 1e6:.0f} MB,"
                    f" {samples[-1].descriptors} descriptors"
                )
            time.sleep(1)
        return samples, most_open

    def _flat(self, what: str, samples: Sequence[Sample]) -> Row:
        if len(samples) < 3:
            return Row(what, "too short to say", "+-2 %", False)
        grown = growth([s.at for s in samples], [s.resident_bytes for s in samples])
        figure = f"{grown:+.1%} in {samples[-1].at - samples[0].at:.0f} s"
        return Row(what, figure, "+-2 %", abs(grown) <= FLAT)

    def _rests(self, indent: str) -> list[Row]:
        left = self._router.left()
        figure = ", ".join(left) or "nothing"
        return [Row(f"{indent}held afterwards", figure, "nothing", not left)]


def main() -> int:
    """Soak and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--streams", type=int, default=5000)
    arguments.add_argument("--stream-minutes", type=float, default=5)
    arguments.add_argument("--minutes", type=float, default=30, help="of mixed calls")
    arguments.add_argument("--rate", type=float, default=200, help="mixed calls a second")
    arguments.add_argument("--flood-seconds", type=float, default=6)
    arguments.add_argument("--rounds", type=int, default=2, help="of floods")
    arguments.add_argument(
        "--only", choices=("streams", "mix", "floods"), action="append", help="part; all without"
    )
    arguments.add_argument(
        "--flood", choices=tuple(FLOODS), action="append", help="one of them; all without"
    )
    asked = arguments.parse_args()
    end_with_children()
    if psutil.cpu_count() == 1:
        print("two cores are needed")
        return 1
    lengths = Lengths(
        *(asked.streams, asked.stream_minutes, asked.minutes, asked.rate),
        *(asked.flood_seconds, asked.rounds, tuple(asked.flood or FLOODS)),
    )
    have_descriptors(lengths.streams)
    parts = {"streams": Soak.streams, "mix": Soak.mix, "floods": Soak.floods}
    status = 0
    for name in asked.only or parts:
        # A router each: what one part leaves in memory is not the next one's.
        with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as router:
            soak = Soak(router, Path(folder), lengths)
            soak.warm_up()
            status |= print_rows([*parts[name](soak), *soak.crashes()])
    return status


if __name__ == "__main__":
    sys.exit(main())
