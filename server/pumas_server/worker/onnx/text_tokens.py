"""The adapter of the tokenizers library: texts in, token numbers out, nothing cut, nothing padded.

The only module that imports it. A tokenizer's file may switch truncation and padding on for the
program that wrote it; both are switched off: a text that is too long is refused with the numbers,
and padding is made where batches are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.folder import TOKENIZER, ModelFolder
from pumas_server.worker.onnx.served import Unfit


@dataclass(frozen=True, slots=True)
class Tokens:
    """One input of the model."""

    ids: list[int]
    types: list[int]
    """Which of two texts a token is of: 0 or 1."""


class TextTokens:
    """A tokenizer, and how many tokens the model takes."""

    def __init__(self, data: bytes, limit: int, padding: int) -> None:
        """Load `tokenizer.json`; `limit` 0 is none. Raises `HeaderFault`.

        `padding` is the filling token where that file names none.
        """
        try:
            self._tokenizer = Tokenizer.from_str(data.decode())
        except Exception as error:  # the library raises nothing more special
            raise no_model("the model's tokenizer.json is no tokenizer") from error
        said = self._tokenizer.padding
        self.padding: int = said["pad_id"] if said else padding
        """The token that fills a batch. Masks make it count for nothing, yet it is no matter of
        taste: some graphs number positions by it."""
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._limit = limit

    def encode(self, texts: Sequence[str], where: str) -> list[Tokens]:
        """The tokens of each text, special ones included.

        Raises `Unfit`, naming `where` and the number, when one has more than the model takes.
        """
        return self._encode(list(texts), where)

    def encode_pairs(self, query: str, documents: Sequence[str], where: str) -> list[Tokens]:
        """The tokens of the query with each document. Raises `Unfit`."""
        return self._encode([(query, document) for document in documents], where)

    def _encode(self, inputs: list[str] | list[tuple[str, str]], where: str) -> list[Tokens]:
        encodings = self._tokenizer.encode_batch_fast(inputs)
        tokens = [Tokens(encoding.ids, encoding.type_ids) for encoding in encodings]
        for position, one in enumerate(tokens):
            if not one.ids:
                raise Unfit(f"{where}[{position}] has no tokens")
            if self._limit and len(one.ids) > self._limit:
                raise Unfit(
                    f"{where}[{position}] has input_tokens {len(one.ids)};"
                    f" the limit is {self._limit}"
                )
        return tokens


def fetch_tokens(root: Path, folder: ModelFolder) -> TextTokens:
    """The tokenizer of a model. Raises `HeaderFault`, `OSError`."""
    data = (root / TOKENIZER).read_bytes()
    return TextTokens(data, folder.context_tokens, folder.padding)
