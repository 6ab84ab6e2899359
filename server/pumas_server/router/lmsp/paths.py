"""Where the catalogue's routes are. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote

from pumas_server.router.lmsp.action import Action
from pumas_server.router.lmsp.problems import PAGES

#: What the document describes stands below this.
ROOT = "/lmsp/"
MODELS = f"{ROOT}v1/models"
READ_METHODS = ("GET", "HEAD")
PROBLEM_PAGE = f"{PAGES}{{code}}"

_ACTED_ON = re.compile(rf"{MODELS}/.*/({'|'.join(Action)})", re.DOTALL)


def model_path(model_id: str) -> str:
    """The path of one model: its id is one segment."""
    return f"{MODELS}/{quote(model_id, safe=':@+')}"


def action_path(model_id: str, action: Action) -> str:
    """Where an action of one model is asked for."""
    return f"{model_path(model_id)}/{action}"


def allowed_methods(path: str, found: str, *, managed: bool) -> str:
    """What `Allow` says of a path, where the framework has `found` the methods of one route.

    Where models are not managed an action's path is but one that a model might have, whose id ends
    alike.
    """
    if not managed and _ACTED_ON.fullmatch(path):
        return ", ".join(READ_METHODS)
    return ", ".join(sorted(found.split(", ")))
