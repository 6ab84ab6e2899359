"""A prompt as the token numbers that a text encoder takes.

The tokenizer is that of `tokenizer/tokenizer.json`, or is built from `vocab.json` and `merges.txt`
as the exported folders have them: byte-level pairs, words ended by `</w>`, all in lower case. A
prompt has a fixed length in tokens: the beginning's, the text's, the end's, and padding. A text
that is longer is cut, as every program that runs these pipelines does; nothing says so in the
answer, but the length is advertised as the context.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from pumas_server.worker.diffusion.folder_files import Read, read_required
from pumas_server.worker.diffusion.json_config import CONFIG_BYTES, JsonConfig
from pumas_server.worker.header_fault import no_model

TOKENIZER = "tokenizer/tokenizer.json"
TOKENIZER_CONFIG = "tokenizer/tokenizer_config.json"
SPECIAL_TOKENS = "tokenizer/special_tokens_map.json"
VOCABULARY = "tokenizer/vocab.json"
MERGES = "tokenizer/merges.txt"

TOKENIZER_BYTES = 32 << 20
"""Ten times the tokenizer of the published pipelines."""
DEFAULT_LENGTH = 77
LENGTH_LIMIT = 1024
_BEGIN = "<|startoftext|>"
_END = "<|endoftext|>"
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


@dataclass(frozen=True, slots=True)
class PromptTokenizer:
    """Makes token numbers of a fixed count."""

    tokenizer: Tokenizer
    length: int
    """Tokens of one prompt, special ones included."""
    begin: int
    end: int
    padding: int
    largest: int
    """The largest number that it gives."""

    def encode(self, prompt: str) -> npt.NDArray[np.int64]:
        """The token numbers of a prompt as `[1, length]`; what does not fit is cut off."""
        found = self.tokenizer.encode(prompt, add_special_tokens=False).ids
        numbers = [self.begin, *found[: self.length - 2], self.end]
        numbers += [self.padding] * (self.length - len(numbers))
        return np.array([numbers], np.int64)


def read_prompt_tokenizer(read: Read, positions: int) -> PromptTokenizer:
    """Read the tokenizer of a folder whose text encoder has so many positions.

    Raises `HeaderFault`, with the file's name in the folder, for what is missing or is none.
    """
    settings = _read_optional(read, TOKENIZER_CONFIG)
    # The older layout keeps special tokens in a file of their own, which then decides.
    special = settings
    if "added_tokens_decoder" not in settings.members:
        kept = _read_optional(read, SPECIAL_TOKENS)
        special = JsonConfig(kept.file, {**settings.members, **kept.members})
    end = _read_token(special, "eos_token", _END)
    begin = _read_token(special, "bos_token", _BEGIN)
    unknown = _read_token(special, "unk_token", end)
    padding = _read_token(special, "pad_token", end)
    data = read(TOKENIZER, TOKENIZER_BYTES)
    tokenizer = (
        _build_from_parts(read, unknown, (begin, end)) if data is None else _parse_whole(data)
    )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return PromptTokenizer(
        tokenizer=tokenizer,
        length=_select_length(settings, positions),
        begin=_number(tokenizer, begin),
        end=_number(tokenizer, end),
        padding=_number(tokenizer, padding),
        largest=max(tokenizer.get_vocab(with_added_tokens=True).values()),
    )


def _read_optional(read: Read, name: str) -> JsonConfig:
    data = read(name, CONFIG_BYTES)
    return JsonConfig(name, {}) if data is None else JsonConfig.read(name, data)


def _read_token(config: JsonConfig, key: str, default: str) -> str:
    value = config.members.get(key)
    if isinstance(value, dict):
        value = value.get("content")
    if value is None:
        return default
    if not isinstance(value, str):
        raise no_model(f"{config.file}: {key} is not a token")
    return value


def _select_length(settings: JsonConfig, positions: int) -> int:
    # A tokenizer without a limit of its own says so with an absurdly large number.
    stated = settings.members.get("model_max_length")
    own = int(stated) if type(stated) in (int, float) and isinstance(stated, int | float) else 0
    return max(2, min(own, positions)) if own > 0 else positions


def _number(tokenizer: Tokenizer, token: str) -> int:
    number = tokenizer.token_to_id(token)
    if number is None:
        raise no_model("a special token is missing in the tokenizer's vocabulary")
    return number


def _parse_whole(data: bytes) -> Tokenizer:
    try:
        return Tokenizer.from_buffer(data)
    except Exception as error:  # the library raises no narrower class
        raise no_model(f"{TOKENIZER} is not a tokenizer") from error


def _build_from_parts(read: Read, unknown: str, special: tuple[str, str]) -> Tokenizer:
    vocabulary = _read_vocabulary(read_required(read, VOCABULARY, TOKENIZER_BYTES))
    merges = _read_merges(read_required(read, MERGES, TOKENIZER_BYTES))
    if unknown not in vocabulary:
        raise no_model(f"a special token is missing in {VOCABULARY}")
    try:
        pairs = models.BPE(
            vocab=vocabulary, merges=merges, unk_token=unknown, end_of_word_suffix="</w>"
        )
    except Exception as error:  # the library raises no narrower class
        raise no_model(f"{MERGES} merges what {VOCABULARY} does not have") from error
    tokenizer = Tokenizer(pairs)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return tokenizer


def _read_vocabulary(data: bytes) -> dict[str, int]:
    members = JsonConfig.read(VOCABULARY, data).members
    vocabulary = {word: number for word, number in members.items() if type(number) is int}
    numbers = set(vocabulary.values())
    if len(numbers) != len(members) or numbers != set(range(len(members))):
        raise no_model(f"{VOCABULARY} does not number its words from 0 on")
    return vocabulary


def _read_merges(data: bytes) -> list[tuple[str, str]]:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise no_model(f"{MERGES} is not UTF-8") from error
    if lines[0].startswith("#version"):
        del lines[0]
    merges = []
    for number, line in enumerate(lines, 1):
        words = line.split(" ")
        if line == "":
            continue
        if len(words) != 2:
            raise no_model(f"{MERGES}: merge {number} is not of two parts")
        merges.append((words[0], words[1]))
    return merges
