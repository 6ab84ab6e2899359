"""Byte bounds and number ranges of the contract (*Request grammar*, *Errors*)."""

CONTRACT_VERSION = 1

#: One request body, one finite answer, or all of one stream.
MAX_REQUEST_BYTES = 33_554_432
MAX_RESPONSE_BYTES = 33_554_432

#: The decoded `data` of one provider event, and the JSON of one projected record.
MAX_STREAM_EVENT_BYTES = 262_144

#: Kept free at the end of a stream, so that a `failed` record always fits the cumulative bound.
FAILED_RECORD_RESERVE = 1024

#: Nesting of a request body.
MAX_DEPTH = 128

#: JSON values in a request body: itself, and every member and item of every object and list.
MAX_VALUES = 131_072

MAX_MODEL_BYTES = 256
U32_MAX = 4_294_967_295

TEMPERATURE_MAX = 2
TOP_P_MAX = 1

SAMPLE_RATE_MIN = 8_000
SAMPLE_RATE_MAX = 192_000
AUDIO_SECONDS_MAX = 30

#: Transcription generates up to this many tokens; no other number can be asked for.
TRANSCRIPTION_TOKENS = 512

#: Characters of a text that an image is made from.
PROMPT_CHARACTERS = 4000

#: Images of one request: how many, and how large before and after base64. 8 MiB are 11,184,812
#: characters.
MAX_IMAGES = 4
MAX_IMAGE_BYTES = 8_388_608
MAX_IMAGE_CHARACTERS = 11_184_812
MAX_TOTAL_IMAGE_BYTES = 16_777_216

#: One image, as its header tells it.
MAX_IMAGE_SIDE = 4096
MAX_IMAGE_PIXELS = 4_194_304

#: What decoding one image may allocate.
MAX_DECODE_BYTES = 67_108_864

#: A conversation that shows an image; parts are counted over all of its messages.
MAX_IMAGE_MESSAGES = 128
MAX_CONTENT_PARTS = 128

#: Clips of one request: how many, and their samples together.
MAX_CLIPS = 4
MAX_TOTAL_AUDIO_BYTES = 16_777_216
