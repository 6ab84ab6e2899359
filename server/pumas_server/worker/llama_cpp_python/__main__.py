"""llama-cpp-python's server as a process: `python -P -m pumas_server.worker.llama_cpp_python`.

It listens at once and loads then. A flag that is not known, or that this engine cannot keep, exits
2; a model that cannot be loaded and a port that is taken exit 1, with the reason on stderr in an
engine's ` E ` line. SIGTERM ends it at once.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from importlib.metadata import PackageNotFoundError, version

from pumas_server.worker.llama_cpp_python.flags import Flags, model_settings, read_flags
from pumas_server.worker.llama_cpp_python.front import Front
from pumas_server.worker.llama_cpp_python.library import load
from pumas_server.worker.own_engine import Unservable, listen, read_key, say, serve

NAME = "llama-cpp-python"


def main(arguments: list[str]) -> int:
    """Serve until a signal ends the process."""
    flags = read_flags(arguments)
    try:
        key = read_key(flags.api_key_file)
        front = Front(flags.alias, key, f"{NAME} {_version()}", flags.embeds)
        listener = listen(flags.host, flags.port)
    except Unservable as reason:
        say(NAME, str(reason))
        return 1
    asyncio.run(_serve(flags, front, listener))
    return 0


async def _serve(flags: Flags, front: Front, listener: socket.socket) -> None:
    from anyio.to_thread import current_default_thread_limiter

    # The threads that the library's server waits for its model in.
    current_default_thread_limiter().total_tokens = flags.threads_http

    def bring_up() -> None:
        front.serve(load(model_settings(flags)))

    await serve(NAME, front, listener, bring_up)


def _version() -> str:
    try:
        return version(NAME)
    except PackageNotFoundError:
        raise Unservable(
            f"{NAME} is not installed: pip install '.[llama-cpp-python]' in a checkout installs it"
        ) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
