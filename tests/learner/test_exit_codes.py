"""Messages and exit codes of errors, as the command prints them."""

from __future__ import annotations

import errno

from blocklearn.datasources import DataError
from blocklearn.learner.exit_codes import ExitCode, exit_code, message
from blocklearn.models.errors import TargetError, TargetRangeError


def test_long_words_are_shortened() -> None:
    text = message(DataError(f"a.csv:3: the rating '{'9' * 5000}' is not a number."))
    assert text.startswith("a.csv:3: the rating '999") and text.endswith("is not a number.")
    assert "... (5,002 characters)" in text and len(text) < 200
    path = "/".join(["folder"] * 60)
    assert message(DataError(f"{path}: it is empty.")) == f"{path}: it is empty."


def test_a_name_that_is_too_long_names_no_file() -> None:
    error = OSError(errno.ENAMETOOLONG, "File name too long", "x" * 5000)
    assert exit_code(error) == ExitCode.NO_INPUT


def test_a_target_out_of_range_is_bad_data() -> None:
    assert exit_code(TargetRangeError("target 'y' is 2", 7)) == ExitCode.DATA
    assert exit_code(TargetError("target 'z': the data do not have it")) == ExitCode.CONFIG
