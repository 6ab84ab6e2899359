"""Requests from inside the cluster: sent by a pod, from a namespace that has nothing to do with ours."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from support.cluster import Kubectl
from support.release import namespace
from support.small_pod import small_deployment

NAMESPACE = "pumas-test-client"
#: Longer than any answer that a test waits for.
TIMEOUT_SECONDS = 120

#: Run in the pod: one request from standard input, its answer on standard output, both as JSON.
ASK = """
import base64, http.client, json, sys
from urllib.parse import urlsplit
asked = json.load(sys.stdin)
url = urlsplit(asked["url"])
try:
    connection = http.client.HTTPConnection(url.hostname, url.port or 80, timeout=asked["timeout"])
    path = url.path + ("?" + url.query if url.query else "")
    body = base64.b64decode(asked["body"]) if asked["body"] else None
    connection.request(asked["method"], path or "/", body, asked["headers"])
    answer = connection.getresponse()
    told = {"status": answer.status, "headers": {k.lower(): v for k, v in answer.getheaders()}}
    told["body"] = base64.b64encode(answer.read()).decode()
except (OSError, http.client.HTTPException) as fault:
    told = {"fault": f"{type(fault).__name__}: {fault}"}
json.dump(told, sys.stdout)
"""


class NoAnswer(Exception):
    """The request was not answered, or not to its end; the message says why."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class ClientPod:
    """A pod that asks. Its answers take half a second: what is fast is asked otherwise."""

    base: str
    """Where paths without a host go."""

    def ask(
        self,
        target: str,
        body: object = None,
        *,
        method: str = "",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request to a path of the API, or to a whole URL. Raises `NoAnswer`.

        A body is sent as it is if it is bytes, else as JSON; with one, the method is POST unless told.
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = {
            "url": target if "://" in target else f"{self.base}{target}",
            "method": method or ("GET" if body is None else "POST"),
            "headers": {"Content-Type": "application/json"} | (headers or {}),
            "body": "" if body is None else base64.b64encode(raw).decode(),
            "timeout": TIMEOUT_SECONDS,
        }
        told = json.loads(
            Kubectl(NAMESPACE)(
                *("exec", "--stdin", "deployment/client", "--", "python", "-c", ASK),
                stdin=json.dumps(asked),
            )
        )
        if "fault" in told:
            raise NoAnswer(told["fault"])
        return Answer(told["status"], told["headers"], base64.b64decode(told["body"]))


def run_client_pod() -> str:
    """Have the pod, and nothing else in its namespace. Returns no fault: a failure is raised."""
    Kubectl().apply(namespace(NAMESPACE))
    idle = "import signal; signal.sigwait([signal.SIGTERM])"
    Kubectl(NAMESPACE).apply(small_deployment("client", ["python", "-c", idle], "1"))
    Kubectl(NAMESPACE)("rollout", "status", "deployment/client", "--timeout=90s")
    return ""
