"""Example corpus: the docstrings of Python's standard library."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from sysconfig import get_path
from typing import Literal

import numpy as np

from ..errors import DataError
from ..text.corpus import Corpus, count_words
from ..text.words import DOCSTRING_WORDS, STOP_WORDS, words
from .corpus_cache import cached
from .library_files import SKIPPED, library_files, module_name
from .two_readers import docstrings_of

FORMAT = 1  # raise it when the code below makes something else of the same docstrings
CAPITAL = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
)  # inside HTTPServer, BaseHandler
STOP = STOP_WORDS | DOCSTRING_WORDS
MIN_WORDS = 5  # shorter ones say too little to have topics
KINDS = ["class", "function", "module"]
# Words that name the kind of an object. Most are in DOCSTRING_WORDS as well.
KIND_WORDS = frozenset(
    "class classes constructor coroutine func function functions method methods mixin module "
    "modules package packages subclass subclasses submodule submodules subpackage".split()
)
Targets = Literal["kind"] | None


def python_docs(
    cache_dir: Path | None = None,
    *,
    min_df: int = 4,
    max_df: float = 0.2,
    targets: Targets = None,
) -> Corpus:
    """Count the words of the docstrings of the running Python's standard library.

    A document is the words of the docstring of a module, class or function, and of its qualified
    name, which is also the document's name ("mailbox.Maildir.add"). CamelCase and snake_case are
    split. Repeated docstrings count once.

    - cache_dir: folder where the counts are kept; None: the user's cache folder, see
      `corpus_cache`.
    - min_df: words in fewer documents are left out.
    - max_df: words in more than this share of the documents are left out.
    - targets: "kind" labels each document as a class, a function (also a method) or a module, by
      0 and 1 in three targets of these names.

    With targets, only words of the docstring itself count, without words such as "module". The
    qualified name, by its length and capitals, or such a word would give the kind away.

    Raises `DataError` if the standard library has no source files.
    """
    root = Path(get_path("stdlib"))
    key = f"{FORMAT} {root} {sorted(SKIPPED)} {sorted(STOP)} {MIN_WORDS}"
    if targets:
        key += f" {targets} {sorted(KIND_WORDS)}"
    corpus = cached("python-docs", key, lambda: read_docs(root, targets), cache_dir)
    return corpus.limit(min_df=min_df, max_df=max_df)


def read_docs(root: Path, targets: Targets = None) -> Corpus:
    """Count the words of all docstrings under `root`, with `targets` if given."""
    seen: set[str] = set()
    documents: list[tuple[str, list[str]]] = []
    kinds: list[int] = []
    for name, kind, docstring in all_docstrings(root):
        if targets:
            found = words(CAPITAL.sub(" ", docstring), STOP | KIND_WORDS)
        else:
            found = words(CAPITAL.sub(" ", f"{name} {docstring}"), STOP)
        if len(found) >= MIN_WORDS and docstring not in seen:
            seen.add(docstring)
            documents.append((name, found))
            kinds.append(KINDS.index(kind))
    if not documents:
        raise DataError(
            f"python-docs: no docstrings in the Python files under {root}; this Python comes "
            "without the source of its standard library. Install it, or train on a file."
        )
    corpus = count_words(documents)
    if not targets:
        return corpus
    table = np.zeros((len(kinds), len(KINDS)), np.float32)
    table[np.arange(len(kinds)), kinds] = 1.0
    return replace(corpus, targets=table, target_names=KINDS)


def docstring_texts() -> Iterator[tuple[str, str]]:
    """Yield the qualified name and the text of each docstring of the standard library, once."""
    seen = set[str]()
    for name, _, docstring in all_docstrings(Path(get_path("stdlib"))):
        if docstring not in seen:
            seen.add(docstring)
            yield name, docstring


def all_docstrings(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield `(qualified name, kind, docstring)` of everything in the files under `root`."""
    yield from docstrings_of([(root / path, module_name(path)) for path in library_files(root)])
