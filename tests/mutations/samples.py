"""Good input of every format that is read, how it is read, and what else knows what it says."""

import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from blocklearn.learner.checkpoints.checkpoint import name_of
from tests.mutations import independent, readers
from tests.mutations.damage import BINARY, TEXT, Damage
from tests.mutations.facts import Facts
from tests.mutations.packing import (  # fmt: skip
    change_npy_header,
    change_signed_json,
    change_signed_manifest,
    footer,
    inside,
    inside_zip,
    pack,
)
from tests.mutations.readers import Read
from tests.mutations.trees import change_json, change_json_line, change_yaml, deepen
from tests.support.block_datasets import folders, labelled, write
from tests.support.formats import BIDMAT_DENSE, BIDMAT_SPARSE, bidmat, example
from tests.support.hugectr_files import write_norm, write_raw
from tests.support.parquet_files import csr_columns, random_csr

FORMATS = Path(__file__).parents[1] / "data" / "formats"
CONFIGS = Path(__file__).parents[2] / "configs"


@dataclass(frozen=True)
class Sample:
    """Files of a folder, by path. read: of the product; expected: of `independent.py`, None where
    digests say that only what was written may be read. damaged: the files that damage comes to;
    damages: what may happen to those with an end, "" all others. silent: messages need not name
    the file.
    """

    name: str
    files: dict[str, bytes]
    read: Read
    expected: Callable[[Path], Facts] | None = None
    damages: dict[str, list[Damage]] = field(default_factory=lambda: {"": BINARY})
    damaged: tuple[str, ...] = ()
    silent: bool = False

    def write(self, folder: Path) -> None:
        """All files."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def damages_of(self, name: str) -> list[Damage]:
        """What may happen to a file."""
        return self.damages.get(
            Path(name).name, self.damages.get(Path(name).suffix, self.damages[""])
        )


X = example(12, 6)
RNG_SEED = 7

SVM = b"1 1:0.5 3:-2 6:1.25e-3\n-1 2:1e3 # c\n0.25 qid:3 1:7 6:1\n1 4:0.1 5:16777217\n0\n"
MULTI = b"1,3 1:1\n 2:1\n3 1:2 2:3\n"
CSV = (
    b'id,age,click,size\nann,31,1,0.1\nbob,-4,0,1e-3\neve,2.5e1,1,"7"\nzo\xc3\xab,0,0,123456.789\n'
)
PLAIN = b"1,2,3\n4,5,6\n7,8.5,-9\n,0.25,1e5\n"
RATINGS = b"user,item,rating\n10,b,5\n9,a,3\n10,a,1.5\n-3,c,4.5\n9,b,2\n"
MARKET = b"""%%MatrixMarket matrix coordinate real general
% a comment
4 6 5
1 1 5
4 6 -2.5
2 3 0.1
3 3 1e10
2 3 1
"""
SYMMETRIC = b"%%MatrixMarket matrix coordinate integer symmetric\n4 4 3\n1 1 5\n4 2 -2\n3 1 7\n"
PATTERN = b"%%MatrixMarket matrix coordinate pattern general\n3 5 4\n1 1\n2 5\n3 2\n3 3\n"
LDA_C = b"2 0:1 4:2\n0\n3 1:1 2:20 5:0.5\n1 3:7 # c\n"
BAG = b"3\n4\n4\n1 2 5\n3 4 1\n1 1 2\n2 3 11\n"
TEXTS = "sockets connect\n\nsockets send bytes na\u00efve\nbytes arrive, bytes leave\n".encode()
JSON = b"".join(
    json.dumps({"text": line, "y": i / 4, "other": [1, {"a": None}]}).encode() + b"\n"
    for i, line in enumerate(TEXTS.decode().split("\n"))
)
CSV_TEXTS = b'text,y\n"some\nwords, ""quoted""",1\nother words,2.5\n"",-3\n'
FFM = b"1 0:1:0.5 2:3:-2\n-1 1:2:1e3\n0 0:1:7 12:01:0\n"
VW = b"1 2 'a|f:2 word y:0.5 | z\n-1 |f y:3 y |g word^x\n0.5 1.5 | z:-2e1 w:0.1\n"


def saved(write: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
    """What a function writes to a file."""
    buffer = io.BytesIO()
    write(buffer, *arguments, **options)
    return buffer.getvalue()


def texts() -> Iterator[Sample]:
    """Formats of text, as they are and packed."""
    words = partial(readers.Converted, words=True)
    for name, data, read, expected in [
        ("a.svm", SVM, readers.Converted, independent.libsvm),
        ("multi.svm", MULTI, readers.Converted, independent.libsvm),
        ("a.csv", CSV, partial(readers.Converted, ids="id", targets=["click"]),
         partial(independent.table, ids="id", targets=("click",))),
        ("b.csv", PLAIN, partial(readers.Converted, nulls="zero", header=False),
         independent.plain_table),
        ("ratings.csv", RATINGS, partial(words, format="ratings", duplicates="last"),
         independent.ratings),
        ("a.mtx", MARKET, readers.Converted, independent.matrix_market),
        ("symmetric.mtx", SYMMETRIC, readers.Converted, independent.matrix_market),
        ("pattern.mtx", PATTERN, readers.Converted, independent.matrix_market),
        ("docword.a.txt", BAG, partial(readers.Converted, format="bag-of-words"),
         independent.bag_of_words),
        ("a.ldac", LDA_C, readers.Converted, independent.lda_c),
        ("a.txt", TEXTS, words, independent.text),
        ("a.jsonl", JSON, partial(words, targets=["y"]), independent.json_lines),
        ("texts.csv", CSV_TEXTS, partial(words, text="text", targets=["y"]),
         independent.csv_texts),
        ("a.vw", VW, words, independent.vowpal_wabbit),
        ("a.ffm", FFM, words, independent.libffm),
    ]:  # fmt: skip
        damages = [*TEXT, *([change_json_line] * 6 + [deepen] if name == "a.jsonl" else [])]
        yield single("convert", name, data, read(name), expected, damages)
        for suffix in (".gz", ".lz4", ".bz2", ".xz", ".zst"):
            if suffix != ".gz" and name not in ("a.svm", "a.mtx", "a.jsonl"):
                continue
            packed, end = pack(data, suffix), name + suffix
            inner = [inside(damages, suffix, data)] * len(BINARY)
            yield single("convert", end, packed, read(end), expected, [*BINARY, *inner])


def configured() -> Iterator[Sample]:
    """Text as training reads it."""
    table: dict[str, Any] = {"numeric": ["age", "size"], "targets": ["click"], "kind": "table"}
    numbers = partial(independent.table, features=("age", "size"), targets=("click",))
    rated = {"kind": "ratings", "duplicates": "last", "words": True}
    no_id = b"\n".join(line.partition(b",")[2] for line in CSV.split(b"\n"))
    for name, data, expected, config in [
        ("a.svm", SVM, independent.libsvm, {"kind": "libsvm"}),
        ("t.csv", no_id, numbers, table),
        ("stream.csv", no_id, numbers, table | {"stream": True}),
        ("r.csv", RATINGS, independent.ratings, rated),
        ("r.mtx", MARKET, independent.ratings_market, rated | {"duplicates": "sum"}),
        ("a.mtx", MARKET.replace(b"-", b""), independent.matrix_market, {"kind": "file"}),
        ("a.txt", TEXTS, independent.text, {"kind": "file", "words": True}),
        ("a.jsonl", JSON, independent.json_texts, {"kind": "file", "words": True}),
        ("texts.csv", CSV_TEXTS, independent.csv_texts_alone, {"kind": "file", "words": True}),
    ]:  # fmt: skip
        read = readers.trained(path=name, **config)  # type: ignore[arg-type]
        damages = [*TEXT, *([change_json_line] * 6 if name == "a.jsonl" else [])]
        silent = name == "stream.csv"  # the learner knows an iterable, not its file
        yield single("train", name, data, read, expected, damages, silent=silent)


def single(
    way: str,
    name: str,
    data: bytes,
    read: Read,
    expected: Callable[[Path], Facts] | None,
    damages: list[Damage],
    *,
    silent: bool = False,
) -> Sample:
    """A sample of one file; `expected` takes its path."""
    found = None if expected is None else lambda folder: expected(folder / name)
    return Sample(f"{way} {name}", {name: data}, read, found, {"": damages}, silent=silent)


def beside() -> Iterator[Sample]:
    """Targets and weights in files of their own, and ratings in binary files."""
    zipped = [*BINARY, *[inside_zip([*BINARY, change_npy_header])] * len(BINARY)]
    headed = [*BINARY, *[change_npy_header] * 8]
    counts = saved(sparse.save_npz, sparse.csr_array(abs(X)), compressed=False)
    Y = np.arange(24, dtype=np.float32).reshape(12, 2) / 4
    market = b"%%%%MatrixMarket matrix coordinate real general\n12 2 3\n1 1 0.5\n12 2 -3\n4 1 1e3\n"
    for name, data, expected, damages in [
        ("y.npy", saved(np.save, Y), partial(independent.column, what="targets"), headed),
        ("Y.npz", saved(sparse.save_npz, sparse.csr_array(Y)), independent.npz_of_targets, zipped),
        ("Y.mtx", market.replace(b"%%%%", b"%%"), independent.market_of_targets, TEXT),
        ("w.npy", saved(np.save, Y[:, 0]), partial(independent.column, what="weights"), headed),
    ]:
        what = "weights" if name == "w.npy" else "targets"
        read = readers.trained(**{"kind": "file", "path": "x.npz", what: name})
        found = single("train", name, data, read, expected, damages)
        files = {"x.npz": counts, **found.files}
        yield Sample(found.name, files, read, found.expected, found.damages, damaged=(name,))
    users, items = [5, -3, 5, 12, 7], ["a", "b", "\u00e9", "a", "b"]
    ratings = np.array([1.5, 2, -3, 0.25, 5])
    read = readers.trained(kind="ratings", path="r.parquet", words=True, duplicates="last")
    for sums in (True, False):
        table = pa.table({"user": users, "item": items, "rating": ratings})
        data = saved(lambda f, t=table, s=sums: pq.write_table(t, f, write_page_checksum=s))
        damages = [*BINARY, *[footer] * 8]
        found = single("train", "r.parquet", data, read, independent.ratings_parquet, damages)
        title = f"train r.parquet{' with sums' if sums else ''}"
        yield Sample(title, found.files, read, found.expected, found.damages)
    data = saved(np.savez, user=np.array(users), item=np.array(items), rating=ratings)
    read = readers.trained(kind="ratings", path="r.npz", words=True, duplicates="last")
    yield single("train", "r.npz", data, read, independent.ratings_npz, zipped)


def arrays() -> Iterator[Sample]:
    """Matrices of NumPy, SciPy and BIDMat."""
    zipped = [*BINARY, *[inside_zip([*BINARY, change_npy_header])] * len(BINARY)]
    for kind in ("csr", "csc", "coo"):
        matrix = X.asformat(kind)
        for packed in (True, False):
            name = f"{kind}{packed:d}.npz"
            data = saved(sparse.save_npz, matrix, compressed=packed)
            yield single("convert", name, data, readers.Converted(name), independent.npz, zipped)
    data = saved(sparse.save_npz, sparse.csr_array(abs(X)), compressed=False)
    read = readers.trained(kind="file", path="x.npz")
    yield single("train", "x.npz", data, read, independent.npz, zipped)
    for name, dense in [
        ("a.npy", X.toarray()),
        ("f.npy", np.asfortranarray(X.toarray())),
        ("d.npy", X.toarray().astype(">f8")),
        ("i.npy", X.toarray().astype(np.int16)),
    ]:
        data, damages = saved(np.save, dense), [*BINARY, *[change_npy_header] * 8]
        yield single("convert", name, data, readers.Converted(name), independent.npy, damages)
    for end in [*BIDMAT_DENSE, *BIDMAT_SPARSE]:
        data = bidmat(X if end in BIDMAT_SPARSE else X.toarray(), end)
        for suffix in ["", ".gz", ".lz4"] if end in (".smat", ".fmat", ".sbmat") else [""]:
            name = f"a{end}{suffix}"
            damages = [*BINARY, *[inside(BINARY, suffix, data)] * len(BINARY)] if suffix else BINARY
            read = readers.Converted(name)
            yield single("convert", name, pack(data, suffix), read, independent.bidmat, damages)


def hugectr() -> Iterator[Sample]:
    """HugeCTR's binary records."""
    rng = np.random.default_rng(RNG_SEED)
    numbers = rng.integers(0, 3, (20, 3)).astype(np.float32)
    slots = [[rng.integers(0, 6, rng.integers(0, 4)) for _ in range(20)] for _ in range(3)]
    for checked in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.txt"
            write_norm(path, numbers[:, :1], numbers[:, 1:], slots, files=2, checked=checked)
            files = contents(Path(folder))
        yield Sample(
            f"train hugectr-norm {'checked' if checked else 'plain'}",
            files,
            readers.trained(kind="hugectr-norm", path="x.txt", slot_size_array=[6, 6, 6]),
            lambda folder: independent.hugectr_norm(folder / "x.txt"),
            {"": BINARY, ".txt": TEXT},
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.bin"
        write_raw(path, numbers[:, :1], numbers[:, 1:], rng.integers(0, 6, (20, 2)))
        data = path.read_bytes()
    read = readers.trained(kind="hugectr-raw", path="x.bin", slot_size_array=[6, 6], dense_dim=2)
    yield single("train", "x.bin", data, read, independent.hugectr_raw, BINARY)


def contents(folder: Path) -> dict[str, bytes]:
    """All files in a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


PARQUET: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False, "compression": "none"},
    "dictionary": {"use_dictionary": True, "compression": "snappy"},
    "pages 2": {"data_page_version": "2.0", "compression": "zstd"},
    "delta": {"use_dictionary": False, "data_page_version": "2.0", "compression": "gzip",
              "column_encoding": dict.fromkeys(["c", "i.list.element"], "DELTA_BINARY_PACKED")},
    "split": {"use_dictionary": False, "compression": "lz4",
              "column_encoding": dict.fromkeys(["y", "v.list.element"], "BYTE_STREAM_SPLIT")},
    "brotli": {"compression": "brotli", "data_page_size": 64, "write_page_index": True},
    "old": {"version": "1.0", "compression": "none", "store_schema": False,
            "write_statistics": False},
    "sums": {"write_page_checksum": True, "compression": "snappy"},
    "sums 2": {"write_page_checksum": True, "data_page_version": "2.0", "compression": "none"},
}  # fmt: skip


def parquet() -> Iterator[Sample]:
    """Every encoding, page version and codec, and nested types."""
    rng = np.random.default_rng(RNG_SEED)
    rows = 40
    columns: dict[str, Any] = {
        **csr_columns(random_csr(rows, 50, 3)),
        "y": rng.integers(-4, 5, rows) / 4,
        "c": rng.integers(0, 9, rows),
        "e": pa.FixedSizeListArray.from_arrays(pa.array(rng.integers(0, 9, 3 * rows) / 8), 3),
        "id": [f"r{i}" for i in range(rows)],
    }
    damages = [*BINARY, *[footer] * 8]
    features = [
        {"dense": "e", "width": 3},
        {"indices": "c", "size": 9},
        {"indices": "i", "values": "v", "size": 50},
    ]
    for name, how in PARQUET.items():
        data = saved(
            lambda f, how=how: pq.write_table(pa.table(columns), f, row_group_size=17, **how)
        )
        read = readers.trained(
            kind="parquet", path="x.parquet", features=features, targets=["y"], ids="id"
        )
        found = single("train", "x.parquet", data, read, independent.parquet, damages)
        yield Sample(f"train parquet {name}", found.files, read, found.expected, found.damages)
    large = {
        "i": columns["i"].cast(pa.large_list(pa.int32())),
        "v": columns["v"].cast(pa.large_list(pa.float64())),
        "y": pa.array(columns["y"].astype(np.float32)),
    }
    data = saved(lambda f: pq.write_table(pa.table(large), f))
    read = readers.trained(kind="parquet", path="x.parquet", features=features[2:], targets=["y"])
    found = single("train", "x.parquet", data, read, independent.parquet, damages)
    yield Sample("train parquet large lists", found.files, read, found.expected, found.damages)
    yield from parquet_tables(damages)


def parquet_tables(damages: list[Damage]) -> Iterator[Sample]:
    """Tables of numbers and of texts."""
    kinds: dict[str, tuple[Any, Any]] = {
        "integers": (pa.array([1, None, -3, 4] * 5, pa.int16()), pa.array(range(20), pa.uint8())),
        "booleans": (pa.array([True, False] * 10), pa.array([0.5] * 20, pa.float16())),
        "decimals": (pa.array([1, None, 3, 4] * 5).cast(pa.decimal128(24, 2)),
                     pa.array(range(20)).cast(pa.decimal128(22, 0))),
        "dictionaries": (pa.array([1.5, 2.5] * 10).dictionary_encode(), pa.array(range(20))),
    }  # fmt: skip
    y = pa.array([0.0, 1.0] * 10)
    for name, (a, b) in kinds.items():
        for way, config in [
            ("parquet", {"features": ["a", "b"], "nulls": "zero"}),
            ("table", {"numeric": ["a", "b"], "nulls": "zero"}),
        ]:
            table = pa.table({"a": a, "b": b, "y": y})
            data = saved(lambda f, t=table: pq.write_table(t, f, compression="none"))
            read = readers.trained(kind=way, path="t.parquet", targets=["y"], **config)  # type: ignore[arg-type]
            found = single("train", "t.parquet", data, read, independent.parquet_table, damages)
            title = f"train {way} of {name}"
            yield Sample(title, found.files, read, found.expected, found.damages)
    words = ["some words", "other words", "", "na\u00efve words \u00e9t\u00e9"] * 5
    unlisted: dict[str, Any] = {"use_dictionary": False}
    for name, how in [
        ("delta", unlisted | {"column_encoding": {"text": "DELTA_BYTE_ARRAY"}}),
        ("lengths", unlisted | {"column_encoding": {"text": "DELTA_LENGTH_BYTE_ARRAY"}}),
        ("sums", {"write_page_checksum": True}),
    ]:
        table = pa.table({"text": words, "y": y})
        data = saved(lambda f, t=table, how=how: pq.write_table(t, f, row_group_size=7, **how))
        read = readers.Converted("t.parquet", words=True, text="text", targets=["y"])
        found = single("convert", "t.parquet", data, read, independent.parquet_texts, damages)
        yield Sample(f"convert texts {name}", found.files, read, found.expected, found.damages)


def blocks() -> Iterator[Sample]:
    """Block datasets: with digests, only what was written is read; without, any valid numbers."""
    for name, data, settings in [
        ("raw", labelled(9), {"codec": "raw", "names": [f"c{i}" for i in range(11)]}),
        ("lz4", labelled(9), {"codec": "lz4", "both_orientations": True}),
        ("dense", labelled(9, 1, dense=True), {"codec": "raw"}),
        ("dense lz4", labelled(9, dense=True), {"codec": "lz4"}),
    ]:
        for stripes, verify in [(1, True), (2, "always"), (1, False)]:
            with tempfile.TemporaryDirectory() as folder:
                paths = folders(Path(folder), stripes)
                write(data, paths, **settings)  # type: ignore[arg-type]
                files = contents(Path(folder))
            names = [path.relative_to(folder).as_posix() for path in paths]
            yield Sample(
                f"blocks {name} in {stripes}{'' if verify else ', not verified'}",
                files,
                readers.dataset(names, verify),
                None if verify else lambda folder: {},
                {
                    "": BINARY,
                    ".json": [*TEXT, change_json, deepen, *[change_signed_manifest] * 12],
                },
            )


def models() -> Iterator[Sample]:
    """Model folders of a release."""
    for path in sorted((FORMATS / "0.1.0").glob("*/model.json")):
        wide = np.load(path.parents[1] / "numbers.npz")["new"][:4]
        files = contents(path.parent)
        signed = [*TEXT[:6], change_json, deepen, *[change_signed_json] * 12]
        yield Sample(
            f"model {path.parent.name}",
            files,
            readers.model(sparse.csr_array(wide)),
            damages={"": BINARY, ".json": signed},
            damaged=tuple(name for name in files if name != "README.md"),
        )


def checkpoints() -> Iterator[Sample]:
    """Folders of checkpoints: two, of which one may be damaged, and one alone."""
    for path in sorted(FORMATS.glob("checkpoint-*")):
        position = json.loads((path / "checkpoint.json").read_text())["position"]
        place = name_of((position["pass"], position["block"]))
        files = {f"checkpoints/{place}/{name}": data for name, data in contents(path).items()}
        yield Sample(
            path.name,
            files,
            readers.checkpoints,
            damages={
                "": BINARY,
                ".json": [*TEXT[:6], change_json, deepen, *[change_signed_json] * 12],
            },
        )


def configurations() -> Iterator[Sample]:
    """Configurations that come with the package: printed by `learn config`."""
    for name in ("als-ratings.yaml", "glm-path.yaml", "lda-text.yaml"):
        path = CONFIGS / name
        told = [] if name == "glm-path.yaml" else ["--set", "data.train.path=x.csv"]
        yield Sample(
            f"config {path.name}",
            {"run.yaml": path.read_bytes()},
            readers.learn("config", "--config", "run.yaml", *told),
            lambda folder: {},
            {"": [*TEXT, *[change_yaml] * 20, deepen]},
            silent=True,
        )
    trial = {
        "x.svm": SVM * 8,
        "run.yaml": b"model: {kind: glm, link: linear, l2: 0.1}\n"
        b"optimizer: {kind: adagrad, rate: 0.1}\n"
        b"data:\n  train: {kind: libsvm, path: x.svm}\n  eval: {kind: holdout, share: 0.3}\n"
        b"  block_rows: 8\n  shuffle: blocks\nlearner: {passes: 2, threads: 1, seed: 3}\n"
        b"evaluation: {every_passes: 1}\ncheckpoint: {every_passes: 1, keep: 2}\n",
    }
    yield Sample(
        "dry run",
        trial,
        readers.learn("train", "--config", "run.yaml", "--dry-run", "-q"),
        lambda folder: {},
        {"": [*TEXT, *[change_yaml] * 60]},
        damaged=("run.yaml",),
        silent=True,
    )


@cache
def samples() -> list[Sample]:
    """All of them, in an order that does not change."""
    kinds = (
        texts,
        configured,
        beside,
        arrays,
        hugectr,
        parquet,
        blocks,
        models,
        checkpoints,
        configurations,
    )
    return [sample for kind in kinds for sample in kind()]
