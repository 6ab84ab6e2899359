"""Images and audio of requests: looked at by us before any engine sees a byte of them. Pure.

Engines decode media in C, inside the process that serves everybody, and read more formats than the
contract knows. So what reaches them was walked through here, is of the declared format to its last
byte, has a size that was checked before it was decoded, and decodes without a warning.
"""
