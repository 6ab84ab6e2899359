"""The way to the API server: where it is, whom we are there, a long GET and a single request.

The library finds credentials and keeps the service account's token fresh, which is replaced on disk
every hour. Connections are our own: on a watch nothing may come for minutes, so the kernel asks the
other side whether it is still there.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import AddrInfoType, ClientHandlerType
from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from pumas_server.router.cluster_answers import (
    PLAIN,
    AnswerRefused,
    Json,
    Unanswered,
    read_object,
)

_CONNECT_SECONDS = 10.0
#: How long the header of an answer may take.
_HEADER_SECONDS = 30.0
#: How long a single request may take, all in all.
ANSWER_SECONDS = 10.0

#: A peer that is gone is noticed 25 s after it was last heard of, where the system can be told so.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class NoCluster(Exception):
    """Neither a pod's own account nor a kubeconfig can be used; one sentence."""


class ClusterAccess:
    """Requests of the API server. Made by `cluster_access`."""

    def __init__(self, configuration: Configuration, session: aiohttp.ClientSession) -> None:
        self._configuration = configuration
        self._session = session

    @asynccontextmanager
    async def get(
        self, path: str, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A 200, whose body may pause for `silence_seconds`.

        Raises `AnswerRefused`, and whatever keeps an answer from coming: `aiohttp.ClientError`,
        `OSError` (`TimeoutError` too) and, when the token's file is empty, `ConfigException`.
        """
        headers = await self._headers()
        async with asyncio.timeout(_HEADER_SECONDS):
            answer = await self._session.get(
                f"{self._configuration.host}{path}",
                params=query,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence_seconds
                ),
            )
        async with answer:
            if answer.status != 200:
                raise AnswerRefused(answer.status)
            yield answer

    async def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        content_type: str = PLAIN,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """One request, one attempt, `ANSWER_SECONDS` in all: the object that is answered.

        Nothing is ever sent twice. Raises `AnswerRefused`, and `Unanswered` when no answer came:
        whether it was done is not known then.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                headers = await self._headers()
                if body is not None:
                    headers["Content-Type"] = content_type
                async with self._session.request(
                    method,
                    f"{self._configuration.host}{path}",
                    params=query,
                    data=None if body is None else json.dumps(body).encode(),
                    headers=headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                    middlewares=(_attempt_once,),
                ) as answer:
                    return read_object(answer.status, await answer.read())
        except config.ConfigException:
            raise Unanswered("the service account's token cannot be read") from None
        except TimeoutError:
            raise Unanswered("the API server is silent") from None
        except (aiohttp.ClientError, OSError) as error:
            # The answer broke off.
            raise Unanswered(f"the API server went away: {type(error).__name__}") from None

    async def _headers(self) -> dict[str, str]:
        token = await self._configuration.get_api_key_with_prefix("BearerToken", "authorization")
        told = {"Accept": "application/json"}
        return told | {"Authorization": token} if token else told


@asynccontextmanager
async def cluster_access(configuration: Configuration) -> AsyncIterator[ClusterAccess]:
    """Connections to the API server that a configuration names, while the block lasts."""
    # The library's own reading of authorities, client certificate and whether to verify at all.
    tls = RESTClientObject(configuration).ssl_context
    connector = aiohttp.TCPConnector(ssl=tls, limit=0, socket_factory=_lively_socket)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    ) as session:
        yield ClusterAccess(configuration, session)


async def load_configuration() -> Configuration:
    """The pod's own account or, outside a pod, the kubeconfig's user. Raises `NoCluster`."""
    configuration = Configuration()
    try:
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        elif not any(map(os.path.isfile, _kubeconfigs())):
            raise config.ConfigException("there is no kubeconfig")
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
    except config.ConfigException as error:
        raise NoCluster(
            f"No cluster can be reached from here: {str(error).rstrip('.')}; run in a pod with a "
            "service account, or name a kubeconfig in KUBECONFIG."
        ) from None
    return configuration


async def _attempt_once(
    request: aiohttp.ClientRequest, send: ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware, since aiohttp sends a GET, PUT or DELETE once more when its connection breaks.

    The second one would find the first one's work and be refused for it. aiohttp does that to
    failures that it knows, so it is given one that it does not know.
    """
    try:
        return await send(request)
    except (aiohttp.ClientError, OSError) as error:
        raise Unanswered(f"the API server cannot be reached: {type(error).__name__}") from error


def _kubeconfigs() -> list[str]:
    """Where the library looks: it takes a file that is not there for an empty one."""
    named = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return [os.path.expanduser(path) for path in named.split(os.pathsep)]


def _lively_socket(address: AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
