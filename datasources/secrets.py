"""Removes secrets from texts: the one list of patterns.

URLs, messages of other libraries and environment variables contain users, passwords, tokens and
signatures. All text that is written to a file, printed or logged passes through here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

MARK = "***"
"""Replaces a secret."""

PUBLIC_OPTIONS = frozenset(
    "account anonymous authority endpoint endpoint_override format op project region scheme "
    "version".split()
)
"""URL options (`?region=eu-west-1`) whose values are shown; any other may be a signature."""

CONTAINER_SCHEMES = frozenset(["abfs", "abfss", "wasb", "wasbs"])
"""Schemes that write a container before the `@`, not a user."""

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
CLOSING = re.compile(r"[\s:,.;!)\]}>\"'`]*$")

NAMED = re.compile(
    r"""(?ix)
    ( \b (?: [\w-]+ [_-] )?
      (?: password | passwd | secret | token | signature | credential | api_?key | access_?key
        | account_?key | access_?key_?id | secret_?key | authorization )
      ["']? \s* (?: = | (?<=["']) : | (?<=authorization) : ) \s* )
    (?: "[^"]*" | '[^']*' | (?: (?: bearer | basic | digest ) \s+ )? [^\s,;&"']+ )
    """
)
"""`password=...`, `"token": "..."`, `Authorization: Bearer ...`."""

KEYS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # ids of keys of AWS
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # JSON web tokens
)

SECRET_VARIABLE = re.compile(
    r"(?i)(?:^|_)(?:password|passwd|secret|token|key|apikey|signature|sas|credential)(?:_id)?$"
)
SHORTEST = 8
"""Least letters of a variable's value to be hidden: a shorter one may be an ordinary word."""


def hidden(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return `text` with `***` in place of every secret.

    environ: variables whose values are hidden if their names mark a secret (they end in `TOKEN`,
    `PASSWORD`, `KEY`, ...). None: the environment of this process.

    >>> hidden("https://ann:pw@host/x.parquet?sig=a1b2&region=eu: not found", {})
    'https://***@host/x.parquet?sig=***&region=eu: not found'
    >>> hidden("login failed: password=hunter2", {})
    'login failed: password=***'
    """
    text = URL.sub(lambda found: _url_in_text(found[0]), text)
    return _without_values(KEYS.sub(MARK, NAMED.sub(rf"\1{MARK}", text)), environ)


def hidden_url(url: str, *, references: bool = False) -> str:
    """Return `url` with `***` for user, password and options that are not public.

    references: whether to keep `${NAME}`, which holds no secret itself.

    >>> hidden_url("https://ann:pw@host/x?sig=a1b2")
    'https://***@host/x?sig=***'
    >>> hidden_url("https://ann:${PW}@host/x?sig=${SIG}", references=True)
    'https://***:${PW}@host/x?sig=${SIG}'
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    rest = rest[len(place) :]
    user, at, host = place.rpartition("@")
    if at and (scheme.lower() not in CONTAINER_SCHEMES or ":" in user):
        kept = references and REFERENCE.search(user)
        user = ":".join(_masked(part, references) for part in user.split(":")) if kept else MARK
    path, *options = re.split(r"(?=[?#&;])", rest) if re.search(r"[?#]", rest) else [rest]
    shown = "".join(_option(option, references) for option in options)
    return f"{scheme}://{user}{at}{host}{path}{shown}"


def without_secrets_of(url: str, text: str) -> str:
    """Return `text` without the secrets of `url`, wherever they are repeated.

    >>> without_secrets_of("https://host/x?sig=a1b2", "<Signature>a1b2</Signature>")
    '<Signature>***</Signature>'
    """
    parts = urlsplit(url)
    given = [parts.username, parts.password]
    given += [value for name, value in parse_qsl(parts.query) if name.lower() not in PUBLIC_OPTIONS]
    for value in given:
        if value:
            text = text.replace(value, MARK).replace(quote(value, safe=""), MARK)
    return hidden(text)


def hidden_leaves(tree: Any, *, references: bool = False) -> Any:
    """Return a tree of dicts, lists and scalars with the secrets of its URLs hidden.

    See `hidden_url`. Other texts stay, so that settings keep their meaning.
    """
    if isinstance(tree, Mapping):
        return {name: hidden_leaves(value, references=references) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [hidden_leaves(value, references=references) for value in tree]
    if isinstance(tree, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", tree):
        return _without_values(hidden_url(tree, references=references), None)
    return tree


def is_hidden(text: str) -> bool:
    """Whether `text` is a URL with a hidden part."""
    return "://" in text and MARK in text


def _without_values(text: str, environ: Mapping[str, str] | None) -> str:
    """Return `text` without the values of variables whose names mark a secret."""
    for name, value in (os.environ if environ is None else environ).items():
        if len(value) >= SHORTEST and SECRET_VARIABLE.search(name):
            text = text.replace(value, MARK)
    return text


def _url_in_text(found: str) -> str:
    """Hide the secrets of a URL in a sentence, without its closing punctuation."""
    closing = CLOSING.search(found)
    end = closing.start() if closing else len(found)
    return hidden_url(found[:end]) + found[end:]


def _option(option: str, references: bool) -> str:
    """Hide the value of `?name=value`, `&name=value` or `#value`."""
    separator, (name, equals, value) = option[0], option[1:].partition("=")
    if not equals:
        return option if not name else separator + _masked(name, references)
    public = name.lower() in PUBLIC_OPTIONS
    return f"{separator}{name}={value if public else _masked(value, references)}"


def _masked(text: str, references: bool) -> str:
    return text if not text or (references and REFERENCE.fullmatch(text)) else MARK
