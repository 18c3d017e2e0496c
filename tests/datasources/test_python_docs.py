"""The corpus of docstrings: what is in it, and its cache."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blocklearn.datasources import Corpus, DataError, PythonDocs, python_docs
from blocklearn.datasources.examples import two_readers
from blocklearn.datasources.examples.corpus_cache import cached, load, save, user_cache_dir
from blocklearn.datasources.examples.docstrings import KIND_WORDS, KINDS, read_docs
from blocklearn.datasources.examples.syntax_trees import docstrings


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def corpus(cache_dir: Path) -> Corpus:
    return python_docs(cache_dir)


def same(a: Corpus, b: Corpus) -> bool:
    return (
        a.vocabulary == b.vocabulary
        and a.documents == b.documents
        and a.counts.shape == b.counts.shape
        and (a.counts != b.counts).nnz == 0
    )


def test_size_and_contents(corpus: Corpus) -> None:
    documents, columns = corpus.counts.shape
    assert 4_000 < documents < 12_000 and 2_000 < columns < 6_000
    assert 60_000 < corpus.counts.sum() < 300_000
    assert len(corpus.documents) == documents and len(set(corpus.vocabulary)) == columns
    names = set(corpus.documents)
    assert {"mailbox.Maildir.get_folder", "socket.create_server", "email.message"} <= names
    assert not any(name.startswith(("test.", "idlelib.", "pip.")) for name in names)
    vocabulary = set(corpus.vocabulary)
    assert {"socket", "datetime", "path", "unittest", "header"} <= vocabulary
    assert not {"return", "the", "none", "self", "arg"} & vocabulary


def test_words_of_a_document(corpus: Corpus) -> None:
    row = corpus.counts[[corpus.documents.index("socket.create_server")]].tocoo()
    found = {corpus.vocabulary[i] for i in row.coords[1]}
    assert {"socket", "server", "address", "port"} <= found


def test_words_of_a_subject_meet_in_documents(corpus: Corpus) -> None:
    """What a topic model lives on: some pairs of words share far more documents than by chance."""
    present = corpus.counts.astype(bool).astype(np.int64)
    documents = present.shape[0]
    for pair in [("socket", "address"), ("date", "month"), ("path", "directory"), ("xml", "dom")]:
        both = present[:, [corpus.vocabulary.index(word) for word in pair]].toarray()
        assert both.all(axis=1).sum() > 4 * both.sum(axis=0).prod() / documents, pair


def test_the_cache_is_used(
    cache_dir: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[read_docs.__module__], "read_docs", None)
    assert same(python_docs(cache_dir), corpus)
    assert [path.suffix for path in cache_dir.iterdir()] == [".npz"]


def test_frequencies_are_applied_to_what_the_cache_holds(cache_dir: Path, corpus: Corpus) -> None:
    rare = PythonDocs(min_df=1, max_df=1.0).open(cache_dir=cache_dir)
    assert set(corpus.vocabulary) < set(rare.vocabulary)
    some = PythonDocs().open(["socket", "unheard"], cache_dir=cache_dir)
    assert some.vocabulary == ["socket", "unheard"] and some.documents == corpus.documents
    column = corpus.counts[:, [corpus.vocabulary.index("socket")]]
    assert some.counts.sum() == column.sum()
    assert some.dropped == rare.counts.sum() - column.sum()
    assert len(list(cache_dir.iterdir())) == 1


def library(root: Path) -> Path:
    """A small standard library with what can be wrong in one."""
    (root / "pkg" / "test").mkdir(parents=True)
    (root / "site-packages").mkdir()
    (root / "pkg" / "__init__.py").write_text('"""Sockets carry bytes between hosts, ports."""')
    (root / "pkg" / "mod.py").write_text(
        '"""Short."""\n'
        "class HTTPServer:\n"
        '    """Serves requests \\d over a slow network connection."""\n'
        "    async def send_all(self):\n"
        '        """Write bytes until the buffer drains completely."""\n'
        "        def inner():\n"
        '            """Write bytes until the buffer drains completely."""\n'
    )
    (root / "pkg" / "test" / "t.py").write_text('"""One two three four five six seven."""')
    (root / "site-packages" / "s.py").write_text('"""Alpha beta gamma delta epsilon zeta."""')
    (root / "broken.py").write_text("print 'hello'")
    (root / "binary.py").write_bytes(b"\0\xff")
    (root / "latin.py").write_bytes(b"# \xe9\n")
    return root


def test_only_readable_docstrings_of_the_library(tmp_path: Path) -> None:
    corpus = read_docs(library(tmp_path))
    assert corpus.documents == ["pkg", "pkg.mod.HTTPServer", "pkg.mod.HTTPServer.send_all"]
    assert {"http", "server", "send", "buffer"} <= set(corpus.vocabulary)
    assert "alpha" not in corpus.vocabulary and "seven" not in corpus.vocabulary


@pytest.mark.parametrize("python", [sys.executable, "/bin/false", "/bin/echo", "/no/such/python"])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_two_processes_read_what_one_reads(
    count: int, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the second one works, fails, writes something else or does not exist."""
    files = [(tmp_path / f"m{n}.py", f"m{n}") for n in range(count)]
    for path, name in files:
        path.write_text(f'"""About {name}, \\udc80."""\ndef f():\n    "Inside."\n')
    monkeypatch.setattr(sys, "executable", python)
    alone = [found for file in files for found in docstrings(*file)]
    assert list(two_readers.docstrings_of(files)) == alone and len(alone) == 2 * count


def test_the_second_process_reads(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text('"""About m."""')
    assert two_readers._read_elsewhere([(path, "m")] * 2) == [[("m", "module", "About m.")]] * 2


def test_a_library_without_source(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no docstrings in the Python files under"):
        read_docs(tmp_path)


def test_the_cache_is_written_whole_and_read_back(tmp_path: Path) -> None:
    small = read_docs(library(tmp_path / "lib"))
    save(small, tmp_path / "new" / "x.npz")
    assert same(load(tmp_path / "new" / "x.npz"), small)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.npz"]


def test_a_cache_that_fails_is_no_obstacle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small = read_docs(library(tmp_path / "lib"))
    calls: list[int] = []

    def make() -> Corpus:
        calls.append(1)
        return small

    folder = tmp_path / "cache"
    for _ in range(2):
        assert same(cached("x", "key", make, folder), small)
    assert len(calls) == 1
    cached("x", "other key", make, folder)
    assert len(calls) == 2 and len(list(folder.iterdir())) == 2
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-200])
    assert same(cached("x", "key", make, folder), small)
    assert len(calls) == 3 and "made again" in caplog.text
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert same(cached("x", "key", make, blocked / "cache"), small)
    assert len(calls) == 4 and "cannot be written" in caplog.text


def test_default_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_dir() == tmp_path / "blocklearn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache_dir() == tmp_path / ".cache" / "blocklearn"


def test_save_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = read_docs(library(tmp_path / "lib"))

    def full(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="disk full"):
        save(small, tmp_path / "new" / "x.npz")
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.slow  # reads the library once more
def test_what_a_docstring_describes(cache_dir: Path) -> None:
    others = set(cache_dir.iterdir())
    corpus = python_docs(cache_dir, targets="kind")
    again = PythonDocs(targets="kind").open(cache_dir=cache_dir)
    assert same(again, corpus) and again.target_names == corpus.target_names == KINDS
    assert (again.targets == corpus.targets).all()
    assert corpus.targets.shape == (len(corpus.documents), 3)
    assert set(np.unique(corpus.targets)) == {0.0, 1.0} and (corpus.targets.sum(axis=1) == 1).all()
    assert (corpus.targets.sum(axis=0) > 200).all()
    kind = dict(zip(corpus.documents, corpus.targets.argmax(axis=1).tolist(), strict=True))
    assert KINDS[kind["logging.Handler"]] == "class"
    assert KINDS[kind["socket.create_server"]] == "function"
    assert KINDS[kind["socket"]] == "module"
    assert not KIND_WORDS & set(corpus.vocabulary)
    assert len(set(cache_dir.iterdir()) - others) == 1


def test_names_do_not_tell_the_kind(tmp_path: Path) -> None:
    corpus = read_docs(library(tmp_path), "kind")
    assert dict(zip(corpus.documents, corpus.targets.tolist(), strict=True)) == {
        "pkg": [0, 0, 1],
        "pkg.mod.HTTPServer": [1, 0, 0],
        "pkg.mod.HTTPServer.send_all": [0, 1, 0],
    }
    assert not {"http", "server", "send", "pkg", "mod"} & set(corpus.vocabulary)
    held = corpus.rows(np.array([2, 0]))
    assert held.targets.tolist() == corpus.targets[[2, 0]].tolist()
    assert held.target_names == KINDS and corpus.limit(max_df=0.5).target_names == KINDS
    assert read_docs(tmp_path).targets is None


@pytest.mark.slow
def test_the_kind_can_be_learnt_but_not_read_off(cache_dir: Path) -> None:
    """No single word gives a kind away: the best word for it finds a small part of its documents;
    all words together say much more than none (AUC .78 to .90 for logistic regression).
    """
    corpus = python_docs(cache_dir, targets="kind")
    present = corpus.counts.astype(bool).astype(np.float64)
    for kind, is_it in zip(KINDS, corpus.targets.T, strict=True):
        found = present.T @ is_it
        precise = found / present.sum(axis=0) > 0.9
        share = (found[precise] / is_it.sum()).max(initial=0.0)
        assert share < 0.25, (kind, corpus.vocabulary[int(np.argmax(found * precise))])


def test_hashed_words(cache_dir: Path, corpus: Corpus) -> None:
    hashed = PythonDocs(hash_bits=24).open(cache_dir=cache_dir)
    assert hashed.counts.shape == (len(corpus.documents), 2**24)
    assert hashed.counts.sum() == corpus.counts.sum() and hashed.dropped == 0
    other = PythonDocs().open(hashed.vocabulary, cache_dir=cache_dir)  # as for evaluation
    assert other.vocabulary == hashed.vocabulary
    column = corpus.counts[:, [corpus.vocabulary.index("socket")]].sum()
    assert hashed.counts[:, [hashed.vocabulary.column("socket")]].sum() >= column
