"""The engines' OpenAI dialect, sans I/O: bytes in, events out, as a protocol library does it."""
