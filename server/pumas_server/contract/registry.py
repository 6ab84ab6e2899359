"""The versions of the contract that are spoken here, and the way from raw bytes to an operation.

Order (notes §2.3): JSON, then the version, then the grammar. The version is looked at before the
grammar, so that a caller of a later contract is told so and not that its fields are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pumas_server.contract import request
from pumas_server.contract.bounds import MAX_VALUES
from pumas_server.contract.errors import Code, ContractError, invalid
from pumas_server.contract.json_weight import check_values
from pumas_server.contract.request import Operation
from pumas_server.contract.strict_json import Unreadable, read_document

VERSIONS: Mapping[int, Callable[[dict[str, Any]], Operation]] = MappingProxyType({1: request.parse})

SUPPORTED_CONTRACT_VERSIONS: tuple[int, ...] = tuple(VERSIONS)


def parse_operation(raw: bytes) -> Operation:
    """The operation in a request body. Raises `ContractError` carrying the rescued id, if the body

    was read: one of more than `MAX_VALUES` values is not.
    """
    check_values(raw, MAX_VALUES)
    try:
        document = read_document(raw)
    except Unreadable as error:
        raise invalid(str(error)) from None
    try:
        if document.flaw is not None:
            raise invalid(document.flaw)
        return _version(document.root)(document.root)
    except ContractError as error:
        error.request_id = document.request_id
        raise


def _version(root: dict[str, Any]) -> Callable[[dict[str, Any]], Operation]:
    version = root.get("contract_version")
    if "contract_version" not in root:
        raise invalid("missing field `contract_version`")
    if isinstance(version, bool) or not isinstance(version, int):
        raise invalid("`contract_version` needs to be an integer")
    parse = VERSIONS.get(version)
    if parse is None:
        spoken = ", ".join(map(str, VERSIONS))
        raise ContractError(
            Code.UNSUPPORTED_CONTRACT,
            f"contract_version {str(version)[:20]} is not supported; supported: {spoken}",
        )
    return parse
