"""Throws mutated files at each check of media for a while: `make fuzz`.

A finding is any exception but the refusal, an execution that takes longer than `SLOW`, memory over
`MEMORY`, or a file that is taken and that another decoder sees otherwise. What was thrown is kept
in `KEPT`; the exit status is 1 when there is a finding.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import traceback
import warnings
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from pumas_server.contract.errors import ContractError
from pumas_server.contract.parts import Clip
from pumas_server.contract.request import parse
from pumas_server.media.canonical_base64 import decode
from pumas_server.media.image import check_image
from pumas_server.media.jpeg import read_jpeg
from pumas_server.media.pcm import check_samples, check_size
from pumas_server.media.png import read_png
from pumas_server.media.request_media import check, gather
from pumas_server.media.rules import Fault
from support.bad_media import BAD
from support.media_files import clip, good_images, image, part, said
from support.mutations import mutate
from support.reference_base64 import decoded

#: Seconds of one execution; the slowest legal file takes a tenth of it.
SLOW = 3.0
#: Bytes of address space that checks may add to what the process starts with.
MEMORY = 512 << 20
FINDINGS_SHOWN = 5
KEPT = Path(".cache/fuzz")

Target = Callable[[bytes], None]


class Wrong(Exception):
    """A file was taken that should not have been, or refused that should have been taken."""


@dataclass
class Checker:
    """One check, what it is fed on, and how it went."""

    name: str
    target: Target
    seeds: list[bytes]
    executions: int = 0
    taken: int = 0
    slowest: float = 0.0
    findings: list[str] = field(default_factory=list)

    def run(self, random: Random, seconds: float) -> None:
        """Throw mutations of the seeds at the target for that long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(self.findings) < FINDINGS_SHOWN:
            self.throw(mutate(random, random.choice(self.seeds), self.seeds))

    def throw(self, file: bytes) -> None:
        """One execution."""
        begin = time.perf_counter()
        try:
            self.target(file)
            self.taken += 1
        except (ContractError, Fault):
            pass
        except Exception:  # whatever it is, it is a finding
            self.find(traceback.format_exc(limit=-4)[-4000:], file)
        took = time.perf_counter() - begin
        self.executions += 1
        self.slowest = max(self.slowest, took)
        if took > SLOW:
            self.find(f"took {took:.1f} s\n", file)

    def find(self, words: str, file: bytes) -> None:
        """Note a finding, and keep the file."""
        kept = KEPT / f"{self.name}-{sha256(file).hexdigest()[:12]}"
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(file)
        self.findings.append(f"{words}the file is {kept}")


def never() -> None:
    """Nobody stops it."""


def throw_base64(file: bytes) -> None:
    text = file.decode("latin-1")
    expected = decoded(text)
    try:
        taken = bytes(decode(text, never))
    except Fault:
        if expected is not None:
            raise Wrong("what the reference decoder takes was refused") from None
        raise
    if taken != expected:
        raise Wrong("the reference decoder disagrees")


def throw_png(file: bytes) -> None:
    check_image("png", file, never)
    header = read_png(file, never).header
    _compare(file, (header.width, header.height))


def throw_jpeg(file: bytes) -> None:
    check_image("jpeg", file, never)
    frame = read_jpeg(file, never)
    _compare(file, (frame.width, frame.height))


def _compare(file: bytes, size: tuple[int, int]) -> None:
    """Another decoder, or another way to the same one, sees a picture of the same size."""
    try:
        image = Image.open(BytesIO(file))
    except (OSError, SyntaxError, ValueError):
        # It reads chunks that no pixel depends on, and refuses a file for one of them.
        return
    with image:
        if image.size != size:
            raise Wrong(f"is {image.size} to another decoder, {size} to us")
        if image.format == "JPEG":
            image.load()


def throw_pcm(file: bytes) -> None:
    file = file[: 1 << 20]  # longer ones are the contract's to refuse
    numbers = Random(len(file))
    for encoding in ("pcm_s16le", "pcm_f32le"):
        channels = numbers.choice((1, 2))
        count = max(1, len(file) // (channels * (2 if encoding == "pcm_s16le" else 4)))
        numbers_of = clip(file, encoding, rate=192_000, channels=channels, count=count)
        record = Clip.model_validate(numbers_of)
        check_size(record, len(file))
        if encoding == "pcm_f32le":
            check_samples(file, never)


def throw_request(file: bytes) -> None:
    """The same bytes as everything that a request may hold."""
    if not file:
        return
    numbers = Random(file[:64])
    records: list[dict[str, Any]] = [
        part(image("png", file)),
        part(image("jpeg", file)),
        part(clip(file, "pcm_f32le", count=max(1, len(file) // 4))),
        part(clip(file, count=max(1, len(file) // 2))),
    ]
    chosen = numbers.choices(records, k=numbers.choice((1, 2, 5)))
    document = {
        "contract_version": 1,
        "request_id": "r",
        "model": "m",
        "input": said(*chosen),
        "output": "text",
    }
    check(gather(parse(document)), lambda: False)


def build_checkers() -> list[Checker]:
    good = good_images()
    pngs = [file for encoding, file in good.values() if encoding == "png"]
    jpegs = [file for encoding, file in good.values() if encoding == "jpeg"]
    bad = [
        decoded(record["data_base64"]) or b""
        for cases in BAD.values()
        for build in cases.values()
        for record in [build()]
        if len(record.get("data_base64", "")) in range(1, 20_000)
    ]
    pngs += [file for file in bad if file.startswith(b"\x89PNG")]
    jpegs += [file for file in bad if file.startswith(b"\xff\xd8")]
    samples = [bytes(size) for size in (4, 8, 400)] + [b"\0\0\x80\x3f" * 16_500]
    texts = [b64encode(file) for file in (*pngs[:40], *jpegs, *samples)]
    return [
        Checker("base64", throw_base64, texts),
        Checker("png", throw_png, pngs),
        Checker("jpeg", throw_jpeg, jpegs),
        Checker("pcm", throw_pcm, samples),
        Checker("request", throw_request, [*pngs, *jpegs, *samples]),
    ]


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=600, help="for each check")
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    arguments.add_argument("--only", help="the name of one check")
    asked = arguments.parse_args()
    warnings.simplefilter("error")
    checkers = [each for each in build_checkers() if asked.only in (None, each.name)]
    if not checkers:
        arguments.error("there is no such check")
    if sys.platform == "linux":
        _limit_memory()
    print(f"seed {asked.seed}, {asked.seconds:g} s for each check", flush=True)
    for checker in checkers:
        checker.run(Random(asked.seed), asked.seconds)
        print(
            f"{checker.name}: {checker.executions} executions, {checker.taken} taken,"
            f" slowest {checker.slowest * 1000:.0f} ms, {len(checker.findings)} findings",
            flush=True,
        )
        for finding in checker.findings:
            print(finding, flush=True)
    return 1 if any(each.findings for each in checkers) else 0


if __name__ == "__main__":
    sys.exit(main())
