"""Content of several kinds in the dialect: texts, images and clips as an engine takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from pumas_server.contract.messages import Message
from pumas_server.contract.parts import AudioPart, Clip, Image, ImagePart, Part, TextPart
from pumas_server.media.request_media import CheckedClip
from pumas_server.provider.json_pieces import Plain

#: What an engine is told beside an image that comes without a word.
DESCRIBE = "Describe this image."
#: llama.cpp aborts on an embedding whose last part is audio; a line feed behind it changes little.
AFTER_AUDIO = "\n"


class Content:
    """Turns parts into the dialect's, with the clips of the request as they were checked."""

    def __init__(self, clips: Sequence[CheckedClip]) -> None:
        """`clips`: all of the request, in its order."""
        self._clips: Iterator[CheckedClip] = iter(clips)

    def message(self, message: Message) -> dict[str, object]:
        """One message; of text alone it has a string, as every engine knows it."""
        parts = message.parts()
        if all(isinstance(part, TextPart) for part in parts):
            return {"role": message.role, "content": message.text()}
        return {"role": message.role, "content": self.parts(parts)}

    def parts(self, parts: Sequence[Part]) -> list[dict[str, object]]:
        """Parts in their order."""
        return [self._part(part) for part in parts]

    def item(self, parts: Sequence[Part]) -> dict[str, object]:
        """What becomes one vector."""
        content = self.parts(parts)
        if isinstance(parts[-1], AudioPart):
            content.append({"type": "text", "text": AFTER_AUDIO})
        return {"content": content}

    def wav_url(self, clip: Clip) -> Plain:
        """The next clip as a data URL."""
        return Plain(("data:audio/wav;base64,", *self._next(clip)))

    def _part(self, part: Part) -> dict[str, object]:
        match part:
            case TextPart(text=text):
                return {"type": "text", "text": text}
            case ImagePart():
                return image_part(part)
            case AudioPart():
                wav = Plain(self._next(part))
                return {"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}}
            case _:
                assert_never(part)

    def _next(self, clip: Clip) -> tuple[str, str]:
        checked = next(self._clips, None)
        if checked is None:
            raise ValueError(f"a clip of {clip.sample_count} samples was not checked")
        return (checked.header_base64, checked.samples_base64)


def image_url(image: Image) -> Plain:
    """The caller's own bytes as a data URL."""
    return Plain((f"data:image/{image.encoding};base64,", image.data_base64))


def image_part(image: Image) -> dict[str, object]:
    """An image in a list of content."""
    return {"type": "image_url", "image_url": {"url": image_url(image)}}
