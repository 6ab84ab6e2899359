"""The API key of a model's engines, derived and never read: operator and router compute the same.

Both hold the installation's secret; the operator puts the key into the model's Secret for its
pods, and the router needs no right to read Secrets.
"""

from __future__ import annotations

import base64
import hashlib
import hmac


def engine_key(secret: bytes, uid: str) -> str:
    """The key of the ServedModel of that uid, in characters that a header and a file can hold.

    Raises `ValueError` without a secret or uid: every installation would derive that key.
    """
    if not secret or not uid:
        raise ValueError("an engine key needs the installation's secret and the model's uid")
    digest = hmac.new(secret, uid.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
