"""Pages in headless Chromium, side by side in frames of given widths."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")


class Frame(NamedTuple):
    """A page, and the width of its frame in pixels."""

    text: str
    width: int


class Seen(NamedTuple):
    """What a script returned for each frame, and what the console said."""

    found: list[Any]
    console: list[str]


def visit(folder: Path, frames: Sequence[Frame], script: str) -> Seen:
    """Load the frames and run `script`, the body of an async function (document, window), in each.

    The policies of the pages stay in force: the script runs outside of them.
    """
    for number, frame in enumerate(frames):
        (folder / f"frame-{number}.html").write_text(frame.text, encoding="utf-8")
    shown = "".join(
        f'<iframe src="frame-{number}.html" style="width:{frame.width}px;height:900px"></iframe>'
        for number, frame in enumerate(frames)
    )
    harness = """<script>onload = async () => {
      const look = async (document, window) => {%s};
      const found = await Promise.all([...document.querySelectorAll("iframe")].map((frame) =>
        look(frame.contentDocument, frame.contentWindow).catch((error) => "failed: " + error)));
      const result = document.createElement("pre");
      result.id = "found";
      result.textContent = JSON.stringify(found);
      document.body.replaceChildren(result);
    };</script>"""
    page = folder / "frames.html"
    text = f"<!doctype html><meta charset=utf-8><body>{harness % script}{shown}"
    page.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         "--allow-file-access-from-files",  # or each file is a site of its own
         "--virtual-time-budget=60000",
         "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", page.as_uri()],
        capture_output=True, encoding="utf-8", timeout=300, check=True,
    )  # fmt: skip
    result = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert result is not None, done.stdout[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Seen(json.loads(html.unescape(result[1])), console)
