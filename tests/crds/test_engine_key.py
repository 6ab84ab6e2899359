"""The engine's key: one function of secret and uid."""

from __future__ import annotations

import pytest

from pumas_crds.engine_key import engine_key


def test_it_is_hmac_sha256_in_urlsafe_base64_without_padding() -> None:
    # printf uid-1 | openssl dgst -sha256 -hmac secret -binary | base64 | tr '+/' '-_' | tr -d =
    assert engine_key(b"secret", "uid-1") == "QQ4nUnNMWd-J8aj2A3ZKV9W-4-KfAi0FYIcUFPf5KuQ"


def test_each_model_and_each_installation_has_its_own() -> None:
    keys = {engine_key(secret, uid) for secret in (b"a", b"b") for uid in ("1", "2")}
    assert len(keys) == 4


@pytest.mark.parametrize(("secret", "uid"), [(b"", "1"), (b"a", "")])
def test_there_is_no_key_without_secret_or_uid(secret: bytes, uid: str) -> None:
    with pytest.raises(ValueError, match="secret and the model's uid"):
        engine_key(secret, uid)
