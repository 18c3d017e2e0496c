"""Fill in pages of the documentation while MkDocs builds the site; see `mkdocs.yml`.

`<!-- insert NAME -->` in a page is replaced by text generated from the code. NAME is
`configuration`, `command-line`, or `api PACKAGE`.
"""

from __future__ import annotations

import re
from typing import Any

from reference.api import api_page
from reference.command_line import command_line_page
from reference.configuration import configuration_page

MARK = re.compile(r"<!-- insert (\S+) ?(\S*) -->")
PAGES = {"configuration": configuration_page, "command-line": command_line_page, "api": api_page}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks in a page; MkDocs calls this for each page."""
    return MARK.sub(lambda mark: PAGES[mark[1]](*filter(None, [mark[2]])), markdown)
