"""Documents and Vowpal Wabbit examples: words to columns, counted in bounded memory or hashed."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from blocklearn.datasources import DataError, HashedWords, count_words, read_counts, words
from blocklearn.datasources.formats import Known, Scratch
from blocklearn.datasources.formats.vocabulary import Counter
from blocklearn.datasources.formats.vowpal_wabbit import parse_example
from tests.support.formats import packed, read

TEXTS = ["sockets connect", "", "a socket sends; sockets SEND, sends", "über naïve sockets", "42"]


@pytest.mark.parametrize("memory", [1, 1 << 28])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.ndjson.lz4"])
def test_documents_as_they_are_counted_in_memory(tmp_path: Path, name: str, memory: int) -> None:
    plain = tmp_path / ("plain.jsonl" if "json" in name else "plain.txt")
    lines = [json.dumps({"text": text}) if "json" in name else text for text in TEXTS]
    plain.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = tmp_path / name
    path.write_bytes(packed(plain.read_bytes(), name))
    for limits in ({}, {"min_df": 2}, {"max_df": 0.5}):
        want = read_counts(plain, **limits)  # type: ignore[arg-type]
        found = read(path, memory=memory, **limits)
        assert found.layout.names == want.vocabulary
        np.testing.assert_array_equal(found.dense, want.counts.toarray())
    assert found.ids == [f"{name}:{i}" for i in range(1, 6)]


def test_words_are_counted_on_where_the_table_of_hashes_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(f"{text} every {'filler ' * 200}" for text in TEXTS * 4))
    want = read(path, memory=1, min_df=2)  # a chunk is 1 KiB
    for module in ("formats.text_rows", "text.word_columns"):
        monkeypatch.setattr(f"blocklearn.datasources.{module}.REMEMBERED", 2)
    found = read(path, memory=1, min_df=2)
    assert found.layout.names == want.layout.names == read_counts(path, min_df=2).vocabulary
    np.testing.assert_array_equal(found.dense, want.dense)


def test_a_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name, text in [("z.txt", TEXTS[0]), ("b/a.txt", TEXTS[2]), ("b/c.txt", TEXTS[3])]:
        (tmp_path / name).write_text(text)
    want, found = read_counts(tmp_path), read(tmp_path)
    assert found.ids == want.documents and found.layout.names == want.vocabulary
    np.testing.assert_array_equal(found.dense, want.counts.toarray())


def test_hashed_words_and_words_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(TEXTS))
    found = read(path, hash_bits=8)
    want = count_words([(str(i), words(text)) for i, text in enumerate(TEXTS)], HashedWords(8))
    np.testing.assert_array_equal(found.dense, want.counts.toarray())
    assert found.layout.names == HashedWords(8)
    known = read(path, known=Known(2, ["sends", "sockets"]))
    assert known.dense.tolist() == [[0, 1], [0, 0], [2, 1], [0, 1], [0, 0]]
    assert known.dropped == sum(len(words(text)) for text in TEXTS) - 5
    with pytest.raises(DataError, match="hashed words are not counted"):
        read(path, hash_bits=8, min_df=2)


def test_fields_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records = [
        {"body": "first words", "stars": 4.5, "spam": True, "key": 7},
        {"body": "other words", "stars": 1, "spam": False, "key": "x"},
    ]
    path.write_text("\n\n".join(map(json.dumps, records)))
    found = read(path, text="body", targets=["stars", "spam"], ids="key")
    assert found.targets.tolist() == [[4.5, 1], [1, 0]] and found.ids == ["7", "x"]
    assert found.layout.target_names == ["stars", "spam"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "a.jsonl: has no documents"),
        (
            '{"text": "some words"}\n{"text": 1}',
            "a.jsonl:2: a line must be an object with a string",
        ),
        ('{"text": "some words"}\n\n{"text": "s"', "a.jsonl:3: not valid JSON"),
        ("[" * 100_000, "a.jsonl:1: not valid JSON"),
        ('{"text": "a b c"}', "a.jsonl: no words in its 1 documents; a word in a text has"),
        ('{"text": "words", "y": NaN}', "a.jsonl:1: the target 'y' is nan"),
        ('{"text": "words", "y": 1e39}', "a.jsonl:1: the target 'y' is 1e+39"),
        ('{"text": "words", "y": "1"}', "a.jsonl:1: the target 'y' is '1'"),
        ('{"text": "words"}', "a.jsonl:1: the target 'y' is None"),
    ],
)
def test_mistakes_in_json_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read(path, targets=["y"] if "target" in message else [])
    assert str(path) in str(raised.value) and message in str(raised.value)


COLUMNS = ["key", "body", "stars", "spam"]
TOLD = [*TEXTS, 'a "pipe"\nbreaks, twice;\r\nhere'] * 60 + ["\tlong " * 30_000]
RECORDS = [(f"n{i}", text, i % 5 - 0.5, i % 2 == 0) for i, text in enumerate(TOLD)]


def write_table(path: Path, records: list[tuple[Any, ...]] = RECORDS) -> None:
    """Records as pandas writes them, in a file of the kind that the name says."""
    if "parquet" in path.name:
        columns = dict(zip(COLUMNS, map(list, zip(*records, strict=True)), strict=True))
        table = pa.table({**columns, "body": pa.array(columns["body"]).dictionary_encode()})
        parquet.write_table(table, path, row_group_size=150)
        return
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t" if ".tsv" in path.name else ",", lineterminator="\n")
    writer.writerows([COLUMNS, *((*r[:3], int(r[3])) for r in records)])
    path.write_bytes(packed(text.getvalue().encode(), path.name))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.csv.lz4", "a.parquet"])
def test_texts_in_a_column_are_those_of_json_lines(tmp_path: Path, name: str) -> None:
    """Line breaks, separators, quotes and long texts; from every place, and as counted at once."""
    path, lines = tmp_path / name, tmp_path / "a.jsonl"
    write_table(path)
    objects = [dict(zip(COLUMNS, record, strict=True)) for record in RECORDS]
    lines.write_text("\n".join(map(json.dumps, objects)))
    options: dict[str, Any] = {"text": "body", "targets": ["stars", "spam"], "ids": "key"}
    want, found = read(lines, **options), read(path, memory=1 << 20, **options)
    assert found.agrees(want) and found.layout.names == want.layout.names
    assert found.layout.target_names == ["stars", "spam"]
    counted = read_counts(path, text="body")
    assert counted.vocabulary == want.layout.names
    assert (counted.counts != want.X).nnz == 0
    assert counted.documents == read(path, text="body").ids


def test_names_of_texts_in_a_table(tmp_path: Path) -> None:
    records = [RECORDS[i] for i in (0, 5, 1)]
    for name, want in [("a.csv", [2, 3, 6]), ("a.parquet", [0, 1, 2])]:
        write_table(tmp_path / name, records)
        found = read_counts(tmp_path / name, text="body").documents
        assert found == [f"{name}:{place}" for place in want]  # a line from 1 on; a row from 0 on


def test_a_folder_and_several_files_of_texts(tmp_path: Path) -> None:
    for number in range(2):
        write_table(tmp_path / f"{number}.parquet", RECORDS[number::2])
        write_table(tmp_path / f"{number}.csv", RECORDS[number::2])
    found = read(tmp_path / "0.csv", tmp_path / "1.csv", text="body", ids="key")
    assert read(tmp_path, text="body", ids="key", format="table-text").agrees(found)
    for path in (tmp_path, tmp_path / "*.csv", tmp_path / "[01].parquet"):
        assert (read_counts(path, text="body").counts != found.X).nnz == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv: is empty: must have a line of names"),
        ("body,y\n", "a.csv: has a header but no documents."),
        ("text,y\nword,1\n", "a.csv: no column 'body'; there are 'text', 'y'. `text` says which"),
        ("boddy,y\nword,1\n", "Did you mean 'boddy'? `text` says which column has the texts."),
        ("body;y\nword;1\n", "separator: ';'"),
        ("body,body,y\nword,word,1\n", "a.csv: the column 'body' occurs twice"),
        ("body,y\nword,1\nmore, words,1\n", "a.csv:3: 3 fields, but the file has 2 columns"),
        ('body,y\nword,1\n"two\nlines",one\n', "a.csv:3: the target 'y': 'one' is not a number"),
        ("body,y\nword,1e39\n", "a.csv:2: the target 'y': '1e39', but every number must be"),
        ("body,y\nword,\n", "a.csv:2: the target 'y': '' is not a number"),
        ('body,y\nword,1\n"never closed,1\nmore,2\n', "a.csv:3: the record that begins here"),
        ('body,y\n"a"b,1\n', "a.csv:2: the record that begins here cannot be divided"),
    ],
)
def test_mistakes_in_texts_of_a_table_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read(path, text="body", targets=["y"])
    assert str(path) in str(raised.value) and message in str(raised.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"body": ["word"] * 300 + [None], "y": [1] * 301}, "row 300 (row 300 of the file): colum"),
        (
            {"body": ["word", "word"], "y": [1.0, None]},
            "row 1 of the file): the target 'y' is null",
        ),
        (
            {"body": pa.array([b"ok", b"a\xff"]).cast(pa.string(), safe=False), "y": [1, 2]},
            "row 1 of the file): column 'body' is not UTF-8",
        ),
        ({"body": [3, 4], "title": ["a", "b"], "y": [1, 2]}, "'body' is of type int64, not text"),
        (
            {"body": [b"\xff"], "y": [1]},
            "'body' is of type binary, not text; columns of text are no",
        ),
        ({"boddy": ["word"], "y": [1]}, "it has boddy, y. Did you mean 'boddy'? `text` says which"),
        ({"body": ["word"], "y": ["1"]}, "'y' is of type string, but must be a number"),
        ({"body": ["word"], "y": [[1.0]]}, "'y' has lists of any length"),
    ],
)
def test_mistakes_in_texts_of_parquet_are_named(
    tmp_path: Path, table: dict[str, Any], message: str
) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table(table), path)
    with pytest.raises(DataError) as raised:
        read(path, text="body", targets=["y"])
    assert str(path) in str(raised.value) and message in str(raised.value)


def test_what_makes_a_table_one_of_texts(tmp_path: Path) -> None:
    """Options say it; without them columns are numbers, and messages name the option."""
    path = tmp_path / "a.csv"
    path.write_text("text,y\nsome words,1\nmore words,2\n")
    assert read(path, min_df=2).layout.names == ["words"]
    with pytest.raises(DataError, match=r"a\.csv:2: column 'text' is 'some words', not .*--text"):
        read(path)
    table = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["some words"], "y": [1]}), table)
    assert read(table, hash_bits=3).layout.columns == 8
    assert "--text COLUMN" in read(table).layout.notes[0]
    with pytest.raises(DataError, match=r"1 columns, but the model has 5; --text COLUMN"):
        read(table, known=Known(5))


def test_bytes_that_are_no_utf8_and_limits(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine words\nna\xefve words\n")
    with pytest.raises(DataError, match=r"a.txt:2: byte 0xef is not UTF-8"):
        read(path)
    path.write_text("fine words\nother words\n")
    with pytest.raises(DataError, match="min_df=3 .* relax one of the two"):
        read(path, min_df=3)
    with pytest.raises(DataError, match="min_df=0"):
        read(path, min_df=0)
    with pytest.raises(DataError, match="the model does not know the words"):
        read(path, known=Known(3))


@given(
    documents=st.lists(st.sets(st.text("abé", min_size=1, max_size=3)), max_size=30),
    most=st.sampled_from([1, 3, 1000]),
)
@settings(max_examples=50, deadline=None)
def test_counts_of_words_do_not_depend_on_memory(
    tmp_path_factory: pytest.TempPathFactory, documents: list[set[str]], most: int
) -> None:
    folder = tmp_path_factory.mktemp("words")
    counter = Counter(folder, most)
    for document in documents:
        counter.add(document)
    want: dict[str, int] = {}
    for document in documents:
        for word in document:
            want[word] = want.get(word, 0) + 1
    assert list(counter.merged()) == sorted(want.items())
    assert not list(folder.iterdir())


def test_too_many_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blocklearn.datasources.formats.vocabulary.MOST_WORDS", 3)
    path = tmp_path / "a.txt"
    path.write_text("alpha beta gamma delta epsilon\n")
    with pytest.raises(DataError, match=r"more than 3 words .* --hash-bits 24"):
        read(path)


def test_a_vocabulary_is_found_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some words\n")
    from blocklearn.datasources.formats import open_rows

    told: list[int] = []
    scratch = Scratch(tmp_path, tell=told.append)
    for _ in range(2):
        assert open_rows([str(path)], scratch, options={}).layout.names == ["words"]
    assert sum(told) == path.stat().st_size  # the second one found it in the folder


# ---- Vowpal Wabbit -------------------------------------------------------------------------------

VW = """1 2.0 'first|f:2 a b:0.5 | c
-1 second|f b:3 b |g a

0.5 | c:-2e1 x^y
"""


@pytest.mark.parametrize("memory", [1, 1 << 28])
@pytest.mark.parametrize("name", ["a.vw", "a.vw.gz"])
def test_examples(tmp_path: Path, name: str, memory: int) -> None:
    path = tmp_path / name
    path.write_bytes(packed(VW.encode(), name))
    found = read(path, memory=memory)
    assert found.layout.names == ["^x^y", "c", "f^a", "f^b", "g^a"]
    assert found.dense.tolist() == [[0, 1, 2, 1, 0], [0, 0, 0, 4, 1], [1, -20, 0, 0, 0]]
    assert found.targets.tolist() == [[1], [-1], [0.5]] and found.weights.tolist() == [2, 1, 1]
    assert found.ids == ["first", "second", f"{name}:4"]
    assert read(path, min_df=2).layout.names == ["c", "f^b"]
    hashed = read(path, hash_bits=10)
    column = HashedWords(10).column
    assert hashed.dense[1, column("f^b")] == 4 and hashed.dense[2, column("c")] == -20
    assert read(path, known=Known(1, ["g^a"])).dropped == 7


@pytest.mark.parametrize(
    "line, label, importance, tag",
    [
        ("|a b", None, 1, ""),
        (" | b", None, 1, ""),
        ("'t |a b", None, 1, "t"),
        ("t|a b", None, 1, "t"),
        ("3 |a b", 3, 1, ""),
        ("3 0 |a b", 3, 0, ""),
        ("3 'x|a b", 3, 1, "x"),
        ("3 2 t|a b", 3, 2, "t"),
        ("3 2 'a'b |a b", 3, 2, "a'b"),
    ],
)
def test_heads_of_examples(line: str, label: Any, importance: float, tag: str) -> None:
    found = parse_example(line)
    assert (found.label, found.importance, found.tag) == (label, importance, tag)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "a.vw: has no examples"),
        ("1 a b\n", "a.vw:1: a line must have a |"),
        ("1|a b\n", "a.vw:1: '1' before | is a tag, not a label"),
        ("1 2 3 4 |a b\n", "a.vw:1: '1 2 3 4': must be a label, an importance and a"),
        ("1:2:0.5 |a b\n", "a.vw:1: the label '1:2:0.5' is not a number; costs"),
        ("1,2 |a b\n", "a.vw:1: the label '1,2' is not a number"),
        ("1 -2 |a b\n", "a.vw:1: the importance is -2"),
        ("1 |a b:x\n", "a.vw:1: 'x' is not a number"),
        ("1 |a b:\n", "a.vw:1: '' is not a number"),
        ("1 |:3 a\n", "a.vw:1: ':3' has no name"),
        ("1 |a b:1e39\n", "a.vw:1: '1e39', but every number must be a finite float32"),
        ("1 |a:1e30 b:1e30\n", "a.vw:1: 'b:1e30' times 1e+30 is not a finite float32"),
        ("1 |a^b c\n", "a.vw:1: the namespace 'a^b' has a ^"),
        ("1 |a b\n\n|a c\n", "a.vw:3: no label, but the first example has a label"),
        ("|a b\n1 |a c\n", "a.vw:2: a label, but the first example has no label"),
        ("1 |a\n", "a.vw: no words in its 1 documents"),
    ],
)
def test_mistakes_in_examples_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.vw"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read(path)
    assert str(path) in str(raised.value) and message in str(raised.value)
