"""The engines' OpenAI dialect, sans I/O: bytes in, events out, in the manner of a protocol library."""
