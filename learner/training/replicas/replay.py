"""Replay programs: interpret the first blocks of each kind, and run later ones from a recording.

An update, a score or a prediction is a Python program that asks for the same launches for every
block; the end of a pass does so for every pass. While it is interpreted, these are recorded
(`matcache/containers/tape.py`). The recording of a block that does what the plan did, or a block
before, launch by launch, runs the blocks that it fits: those of the same numbers, as far as the
program read them, where the results of earlier blocks that it used are current. Other blocks are
interpreted, such as the first last one of a pass, and the first ones of a phase.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from blocklearn.matcache import MatCache
from blocklearn.matcache.containers.tape import Numbers, Tape, record

Result = TypeVar("Result")

log = logging.getLogger("blocklearn.learner")

PATIENCE = 24  # blocks in a row that fit no recording before recording is given up; or the plan
MOST = 16  # most recordings of one kind of program, and most numbers that one is known to fit


@dataclass(eq=False)
class Take:
    """A recording, and for which numbers of a block it was made.

    confirmed: whether it is of a block that did the same as an earlier one, or as the plan.
    planned: whether it was made on shapes. misses: blocks that it did not fit since.
    """

    tape: Tape
    reads: list[dict[str, Any]] = field(default_factory=list)
    confirmed: bool = False
    planned: bool = False
    misses: int = 0

    def fits(self, now: Numbers) -> bool:
        """Return whether the program should do for a block what this recording does."""
        for reads in self.reads:
            for name, number in reads.items():
                if now[name] != number:
                    break
            else:
                return self.tape.fits(now)
        return False


class Takes:
    """The recordings of one kind of program."""

    def __init__(self) -> None:
        """Start without any. `planned` are launches on shapes: see `Tape`."""
        self.planned: set[Hashable] = set()
        self._takes: list[Take] = []  # those first that use most results of earlier blocks
        self._expected: Take | None = None  # what the present block should do
        self._in_vain = 0  # interpreted blocks in a row
        self._why = ""

    @property
    def given_up(self) -> bool:
        """Whether too many blocks in a row did something new."""
        return self._in_vain > PATIENCE

    def clear(self) -> None:
        """Drop all recordings."""
        self._takes.clear()
        self._expected = None

    def fitting(self, now: Numbers) -> Tape | None:
        """Return a confirmed recording for a block with these numbers, or None."""
        self._expected = None
        for take in self._takes:
            if take.fits(now):
                self._expected = take
                break
            if take.planned:
                self._miss(take)
        if self._expected is None or not self._expected.confirmed:
            return None
        self._in_vain = 0
        return self._expected.tape

    def _miss(self, take: Take) -> None:
        """Drop what was planned if blocks do something else."""
        take.misses += 1
        if take.misses > PATIENCE:
            self._takes = [each for each in self._takes if each is not take]

    def keep(self, tape: Tape) -> str | None:
        """Add a recording, or confirm an earlier one that did the same.

        Returns why no more are made, once they are given up.
        """
        self._in_vain += 1
        if tape.refused is not None:
            self._why = tape.refused
            return self._why if self.given_up else None
        twin = self._twin(tape)
        if self._expected is not None and self._expected is not twin:
            self._takes.remove(self._expected)  # it was not repeated
        if twin is not None and not twin.confirmed:
            tape.lay_out()
            twin.tape, twin.confirmed, twin.planned = tape, True, False
        self._add(tape, twin, planned=False)
        return self._why if self.given_up else None

    def rehearse(self, tape: Tape) -> None:
        """Add a recording that was made on shapes; a block that does the same confirms it."""
        if tape.refused is None:
            self._add(tape, self._twin(tape), planned=True)

    def _add(self, tape: Tape, twin: Take | None, *, planned: bool) -> None:
        """Add a recording, or what it read to the earlier one that did the same."""
        if twin is None:
            self._takes.insert(0, Take(tape, [tape.reads], planned=planned))
            self._takes.sort(key=lambda take: -len(take.tape.hits))
            del self._takes[MOST:]
        elif tape.reads not in twin.reads:
            twin.reads.insert(0, tape.reads)
            del twin.reads[MOST:]  # numbers of passes, say, do not come again

    def _twin(self, tape: Tape) -> Take | None:
        """Return the recording that did the same, or None."""
        for take in self._takes:
            difference = tape.differs_from(take.tape)
            if difference is None:
                return take
            self._why = difference
        return None


class Replays:
    """Keeps the recordings of a replica, by kind of program.

    count: programs that were replayed.
    """

    def __init__(self, cache: MatCache, title: str, each: str = "block") -> None:
        """Start without recordings.

        title: of the model, for the log. each: what its programs run for.
        """
        self.count = 0
        self._each = each
        self._cache, self._title = cache, title
        self._kinds: defaultdict[Hashable, Takes] = defaultdict(Takes)
        self._edition = cache.edition

    def _fitting(self, now: Numbers, kind: Hashable) -> Tape | None:
        """Return the recording to run for a block with these numbers; None: it is interpreted."""
        if self._edition != self._cache.edition:
            for takes in self._kinds.values():
                takes.clear()
            self._edition = self._cache.edition
        tape = self._kinds[kind].fitting(now)
        self.count += tape is not None
        return tape

    def result(
        self,
        now: Numbers,
        kind: Hashable,
        program: Callable[[Tape | None], Result],
        *,
        name: str,
    ) -> Result:
        """Return the result of a program, from a recording that fits, or interpreted.

        now: numbers of the block.
        kind: programs of another kind have recordings of their own.
        program: calls `Tape.returns`. It is recorded on the tape, if there is one.
        name: of the model's method, for the log. Only updates are worth a warning.
        """
        tape = self._fitting(now, kind)
        if tape is None:
            return self._interpret(now, kind, program, name)
        tape.run(now)
        found: Result = tape.result
        return found

    def rehearse(self, now: Numbers, kind: Hashable, program: Callable[[Tape], None]) -> Tape:
        """Run a program on shapes, and keep what it launches; return that.

        now, kind, program: see `result`.
        """
        takes = self._kinds[kind]
        tape = Tape(self._cache, now, takes.planned)
        with record(tape, runs=False):
            program(tape)
        takes.rehearse(tape)
        return tape

    def _interpret(
        self, now: Numbers, kind: Hashable, program: Callable[[Tape | None], Result], name: str
    ) -> Result:
        """Return the result of a program that no recording fits."""
        takes = self._kinds[kind]
        if takes.given_up:
            return program(None)
        tape = Tape(self._cache, now)
        with record(tape, runs=False):
            found = program(tape)
        why = takes.keep(tape)
        if why is not None:
            log.log(
                logging.WARNING if name == "update" else logging.INFO,
                "%s.%s is interpreted for every %s, which costs a millisecond each: %s.",
                self._title,
                name,
                self._each,
                why,
            )
        return found
