"""Redaction of text that clients may read (decisions: *Redaction in messages*).

`redact` takes out what looks like a credential; `redact_foreign` is for text that somebody else
wrote (an engine's reason): file-system paths and network addresses go too, and it is cut.
Over-redaction is the safe side: a word too much is lost, never a secret shown.

Every pattern is linear in the text: repetitions are bounded, or begin only where a word does. The
author of the text may be hostile, and the event loop waits while it is scanned.
"""

from __future__ import annotations

import re

MARK = "[redacted]"
MAX_FOREIGN_CHARACTERS = 500
_MAX_SCANNED = 4_096

_CREDENTIALS = re.compile(
    r"""
      (?:api[-_ ]?key|access[-_ ]?key|private[-_ ]?key|secret(?:[-_ ]?key)?|token|credentials?
        |passw(?:or)?d|passphrase|authorization|cookie)
      ["']?\s*[:=]\s*                                          # key=value and "key": "value"
      (?:"[^"]*"?|'[^']*'?|(?:(?:bearer|basic|token)\s+)?[^\s"',;&]{4,})
    | \b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}              # Authorization values
    | \b(?:sk|pk|rk|hf|ghp|gho|ghs|ghu|glpat|xox[abprs])[-_][A-Za-z0-9_-]{8,}
    | \bgithub_pat_\w{20,}
    | \bA(?:KIA|SIA)[A-Z0-9]{12,}                              # cloud access keys
    | \bAIza[A-Za-z0-9_-]{20,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?   # JSON web tokens
    | -----BEGIN[ ][A-Z ]{0,64}PRIVATE[ ]KEY-----(?:.|\n)*?
      (?:-----END[ ][A-Z ]{0,64}PRIVATE[ ]KEY-----|\Z)
    | (?<=://)[^\s/]{1,512}(?=@)                               # userinfo of a URL
    """,
    re.IGNORECASE | re.VERBOSE,
)

_IPV4 = r"(?:\d{1,3}\.){3}\d{1,3}"
_GROUP = r"[0-9a-f]{1,4}"
# All eight groups, or some around a `::`; a time of day (12:30:45) is neither.
_IPV6 = rf"""
    (?:(?:{_GROUP}:){{7}}{_GROUP}
    |(?:{_GROUP}(?::{_GROUP}){{0,6}})?::(?:(?:{_GROUP}:){{0,6}}(?:{_IPV4}|{_GROUP}))?
    )(?:%\w{{1,16}})?
"""
_HOST_START = r"(?<![\w.-])(?:[a-z0-9-]{1,63}\.){1,32}"

_PLACES = re.compile(
    rf"""
      \b[a-z][a-z0-9+.-]{{0,30}}://(?:[^\s/@]{{0,512}}@)?(?:\[[^\]\s]{{0,64}}\])?  # URLs
      [^\s"'<>)\]]*
    | (?<!\w)(?<!\w\.){_IPV4}(?::\d{{1,5}})?(?!\w|\.\w)        # IPv4, with or without a port
    | \[{_IPV6}\](?::\d{{1,5}})?
    | (?<![\w:.]){_IPV6}(?!\w|:[\w:])
    | (?<![\w:])(?:[0-9a-f]{{2}}:){{5}}[0-9a-f]{{2}}(?!\w|:\w)  # hardware addresses
    | \blocalhost(?::\d{{1,5}})?\b
    | {_HOST_START}[a-z][a-z0-9-]{{0,62}}:\d{{2,5}}\b          # host.name:port
    | {_HOST_START}(?:svc|local|internal|localdomain|lan)\b    # names of inner networks
    | (?:(?<=\bto\ )|(?<=\bat\ )|(?<=\bon\ )|(?<=\bfrom\ ))[a-z][a-z0-9-]{{0,62}}:\d{{2,5}}\b
    | (?:(?<=\bhost:\ )|(?<=\bhost=)|(?<=\bhostname:\ )|(?<=\bhostname=))[^\s,;)]+
    | (?<=["'`])(?:~|\.{{1,2}})?/[^"'`]{{0,1024}}(?=["'`])     # quoted paths, which may hold blanks
    | (?<![\w/<])(?:~[\w.-]{{0,64}}|\.{{1,2}})?/+[\w.@%+~${{-][^\s"'`:;,)\]}}>]*    # POSIX paths
    | (?<![\w.@+/-])(?:[\w.@+-]{{1,255}}/){{1,64}}[\w.@+-]{{0,255}}
      \.(?:gguf|onnx|safetensors|bin|json|jinja|so|dylib|dll|py|c|cc|cpp|cu|h|hpp)\b
    | \b[a-z]:[\\/][^\s"']+                                    # drive paths
    | \\\\[\w.-]{{1,255}}\\[^\s"']+                            # shares
    """,
    re.IGNORECASE | re.VERBOSE,
)


def redact(text: str) -> str:
    """`text` without credential-shaped parts, and in Unicode: half a surrogate pair is none."""
    return _CREDENTIALS.sub(MARK, text.encode("utf-8", "replace").decode("utf-8"))


def redact_foreign(text: str) -> str:
    """Somebody else's sentence, fit to be shown: one line, no secret, no place, cut."""
    # Scanning is bounded before and cutting comes last: a secret is never cut into a harmless
    # looking half, and a megabyte of reason costs nothing. Places go first, since an address
    # without its credentials is no longer seen to be one.
    printable = "".join(c if c.isprintable() else " " for c in text[:_MAX_SCANNED])
    clean = redact(_PLACES.sub(MARK, " ".join(printable.split())))
    if len(clean) > MAX_FOREIGN_CHARACTERS:
        clean = clean[: MAX_FOREIGN_CHARACTERS - 1] + "…"
    return clean
