"""What a file brings into a message cannot command a terminal."""

import pytest

from blocklearn.datasources import DataError
from blocklearn.learner.command_line.printable import printable
from blocklearn.learner.exit_codes import ExitCode, message
from tests.support.learn_command import Learn


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("na\u00efve \u65e5\u672c \U0001f600 \u00a0", "na\u00efve \u65e5\u672c \U0001f600 \u00a0"),
        ("\x1b[31m\x07\r\x00", r"\x1b[31m\x07\r\x00"),
        ("\x85\u2028\u202e\ud800", r"\x85\u2028\u202e\ud800"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert message(DataError(text)) == shown


def test_a_command_about_a_file_of_control_characters(command: Learn) -> None:
    with open("t.csv", "wb") as file:
        file.write(b"age,click\n1,0\n1\x1b[2J,0,0\n")
    with open("r.yaml", "w") as file:
        file.write(
            "model: {kind: glm}\n"
            "data: {train: {kind: table, path: t.csv, numeric: [age], targets: [click]}}\n"
        )
    code, _, err = command("train", "--config", "r.yaml", "-q")
    assert code == ExitCode.DATA and "\x1b" not in err and r"\x1b[2J" in err
    with open("r.yaml", "w") as file:
        file.write('model: {kind: "gl\\em"}\n')
    code, _, err = command("config", "--config", "r.yaml")
    assert code == ExitCode.CONFIG and "\x1b" not in err and "r.yaml:1" in err
