"""From text to words."""

import re
from collections.abc import Set

from .stop_words import STOP_WORDS

_WORD = re.compile(r"[^\W\d_]{3,}")


def words(text: str, stop: Set[str] = STOP_WORDS) -> list[str]:
    """Words of `text` in lower case: runs of three or more letters (of any script) not in `stop`.

    Digits, underscores and everything else separate words.

    >>> words("The SOCKET's recv_into(buffer) reads 1024 Bytes; don't block.")
    ['socket', 'recv', 'buffer', 'reads', 'bytes', 'block']
    """
    return [word for word in _WORD.findall(text.lower()) if word not in stop]
