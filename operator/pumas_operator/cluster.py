"""The API server, one method wide: the operator's only way to it beside kopf's watches."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import aiohttp
from aiohttp import ClientHandlerType
from kubernetes.aio import client, config

from pumas_operator.json_object import Json, text
from pumas_operator.requests import Request

#: Short enough that what a leader began to write at the last moment is over before another leads.
ANSWER_SECONDS = 10.0


class Refused(Exception):
    """The API server answered, and it was no."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def outdated(self) -> bool:
        """Whether what was to be changed is gone, has changed, or is another by now."""
        another = self.status == 422 and "metadata.uid" in self.message
        return another or self.status in (404, 409)


class Unreachable(Exception):
    """The API server gave no answer that could be read; whether it did the thing is not known."""


class Cluster(Protocol):
    """Whoever carries out requests of the Kubernetes API."""

    async def send(self, request: Request) -> Json:
        """The object that is answered. Raises `Refused` and `Unreachable`."""
        ...


class ApiServer:
    """The API server of the cluster that the process is in, or that the kubeconfig names."""

    def __init__(self, api: client.ApiClient, session: aiohttp.ClientSession) -> None:
        self._api = api
        self._session = session

    async def send(self, request: Request) -> Json:
        """One request, one attempt. A 5xx and a 429 are the server's weather: `Unreachable`."""
        headers = {"Accept": "application/json", "Content-Type": request.content_type}
        try:
            # The library's own way of putting credentials in, a fresh token included.
            await self._api.update_params_for_auth(
                headers, [], ["BearerToken"], request.path, request.method, None
            )
            async with self._session.request(
                request.method,
                self._api.configuration.host + request.path,
                params=dict(request.query),
                data=request.payload(),
                headers=headers,
                ssl=self._api.rest_client.ssl_context,
                allow_redirects=False,
                middlewares=(_attempt_once,),
            ) as answer:
                return _read(answer.status, await answer.read())
        except config.ConfigException:
            raise Unreachable("the service account's token cannot be read") from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(type(error).__name__) from None


async def _attempt_once(
    request: aiohttp.ClientRequest, send: ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware: aiohttp itself sends a GET, PUT or DELETE once more when its connection breaks.

    It does so after failures that it knows, hence is given one that it does not know.
    """
    try:
        return await send(request)
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(type(error).__name__) from error


@asynccontextmanager
async def api_server() -> AsyncIterator[ApiServer]:
    """The API server, with the pod's own account or, outside a pod, the kubeconfig's user."""
    await load_credentials()
    async with (
        client.ApiClient() as api,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)) as session,
    ):
        yield ApiServer(api, session)


async def load_credentials() -> None:
    """Make the library use the pod's own account or, outside a pod, the kubeconfig's user."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        config.load_incluster_config()  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config()  # type: ignore[no-untyped-call]


def _read(status: int, raw: bytes) -> Json:
    try:
        body: object = json.loads(raw)
    except ValueError:
        body = None
    told = body if isinstance(body, dict) else {}
    if status < 300 and told:
        return told
    # An admission webhook that is not there makes a 500, and whoever waits should be told.
    weather = status >= 500 and text(told, "reason") != "InternalError"
    if weather or status == 429 or status < 400:
        raise Unreachable(f"the API server answers {status}")
    raise Refused(status, text(told, "reason"), text(told, "message"))
