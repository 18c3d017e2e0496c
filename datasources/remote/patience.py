"""How long to wait for an answer, and how often to ask again."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .errors import Passing, RemoteError

T = TypeVar("T")
LONGEST_PAUSE = 5.0  # seconds


@dataclass(frozen=True)
class Patience:
    """timeout: seconds of silence, while connecting or reading, that end a try. attempts: tries in
    all. pause: seconds before the second try; doubled before each one that follows.
    """

    timeout: float = 30.0
    attempts: int = 10
    pause: float = 0.1

    def keep_trying(self, name: str, attempt: Callable[[], T]) -> T:
        """What `attempt` returns when it does not raise `Passing`.

        Raises `RemoteError` about the file `name` when all tries have failed, and at once
        whatever else `attempt` raises.
        """
        pause = self.pause
        for left in range(self.attempts - 1, -1, -1):
            try:
                return attempt()
            except Passing as error:
                if not left:
                    raise RemoteError(
                        f"{name}: {error} (tried {self.attempts} times; see the servers' logs, or "
                        "allow more attempts)"
                    ) from error
            time.sleep(pause * random.uniform(0.5, 1.0))  # not all workers at once
            pause = min(2 * pause, LONGEST_PAUSE)
        raise RemoteError(f"{name}: attempts={self.attempts}, but at least one is needed.")
