"""The command `learn` without the second that a Python needs to import everything.

`python command_server.py SOCKET` imports the package and then forks a child for every call;
`command(socket)` is the text of a shell command that makes one: arguments, folder, environment and
the three streams are those of the caller, and so is the exit code. Signals do not reach the child.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

CALL = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(sys.argv[1])
    told = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [told], [0, 1, 2])
    code = server.recv(16)
sys.exit(int(code) if code else 137)
"""
SIZE = 2**17  # bytes of a call at most


def start(path: Path) -> subprocess.Popen[str]:
    """A server at the socket `path`, when it is ready to be called."""
    import blocklearn

    process = subprocess.Popen(
        [sys.executable, __file__, str(path)],
        env=os.environ | {"PYTHONPATH": str(Path(blocklearn.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def command(path: Path, call: Path) -> str:
    """The text of a shell script that calls the server; `call` becomes a part of it."""
    call.write_text(CALL)
    return f'exec "{sys.executable}" -I -S "{call}" "{path}" "$@"'


def serve(path: str) -> None:
    """Take calls until killed."""
    from blocklearn.datasources import config
    from blocklearn.learner.command_line import cli
    from blocklearn.learner.results import persistence
    from blocklearn.learner.runs import training

    assert cli and config and persistence and training
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while True:
            caller, _ = server.accept()
            with caller:
                if os.fork() == 0:
                    server.close()
                    answer(caller)


def answer(caller: socket.socket) -> None:
    """In a child: run one command, tell its exit code, and end."""
    code = 70
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        told, streams, _, _ = socket.recv_fds(caller, SIZE, 3)
        arguments, folder, environ = json.loads(told)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        code = run(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        caller.send(str(code).encode())
        os._exit(code)


def run(arguments: list[str]) -> int:
    """The exit code of `learn ARGUMENTS`."""
    from blocklearn.learner.command_line.cli import main

    sys.argv = ["learn", *arguments]
    try:
        main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])
