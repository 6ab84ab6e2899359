"""Redaction of text that clients may read (decisions: *Redaction in messages*).

`redact` takes out what looks like a credential; `redact_foreign` is for text that somebody else
wrote (an engine's reason): file-system paths and network addresses go too, and it is cut.
Over-redaction is the safe side: a word too much is lost, never a secret shown.
"""

from __future__ import annotations

import re

MARK = "[redacted]"
MAX_FOREIGN_CHARACTERS = 500
_MAX_SCANNED = 16_384

_CREDENTIALS = re.compile(
    r"""
      \b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}              # Authorization values
    | \b(?:sk|pk|rk|hf|ghp|gho|ghs|ghu|glpat|xox[abprs])[-_][A-Za-z0-9_-]{8,}
    | \bgithub_pat_\w{20,}
    | \bA(?:KIA|SIA)[A-Z0-9]{12,}                              # cloud access keys
    | \bAIza[A-Za-z0-9_-]{20,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?   # JSON web tokens
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----(?:.|\n)*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    | (?<![A-Za-z])(?:api[-_ ]?key|access[-_ ]?key|secret|token|passw(?:or)?d|authorization)
      ["']?\s*[:=]\s*["']?[^\s"',;&]{4,}                       # key=value and "key": "value"
    | (?<=://)[^\s/@]+(?=@)                                    # userinfo of a URL
    """,
    re.IGNORECASE | re.VERBOSE,
)

_PLACES = re.compile(
    r"""
      \b[a-z][a-z0-9+.-]*://[^\s"'<>)\]]+                      # URLs
    | (?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?![\w.])      # IPv4, with or without a port
    | \[[0-9a-f:.]*:[0-9a-f:.]*\](?::\d+)?                     # [IPv6]:port
    | (?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])  # IPv6
    | \blocalhost(?::\d+)?\b
    | \b[a-z0-9-]+(?:\.[a-z0-9-]+)+:\d{2,5}\b                  # host.name:port
    | (?<![\w/<])(?:~|\.{1,2})?/[\w.@%+~-][^\s"'`:;,)\]}>]*    # POSIX paths
    | \b[a-z]:\\[^\s"']+                                       # drive paths
    | \\\\[\w.-]+\\[^\s"']+                                    # shares
    """,
    re.IGNORECASE | re.VERBOSE,
)


def redact(text: str) -> str:
    """`text` without credential-shaped parts."""
    return _CREDENTIALS.sub(MARK, text)


def redact_foreign(text: str) -> str:
    """Somebody else's sentence, fit to be shown: one line, no secret, no place, cut."""
    # Scanning is bounded before and cutting comes last: a secret is never cut into a harmless
    # looking half, and a megabyte of reason costs nothing.
    scanned = " ".join(text[:_MAX_SCANNED].split())
    clean = _PLACES.sub(MARK, redact(scanned))
    if len(clean) > MAX_FOREIGN_CHARACTERS:
        clean = clean[: MAX_FOREIGN_CHARACTERS - 1] + "…"
    return clean
