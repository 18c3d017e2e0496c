"""What files say, read by Python, NumPy, SciPy and PyArrow alone.

Every function takes the path of a file and returns `Facts`, or raises what it likes where the file
does not say anything.
"""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import re
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from scipy import sparse

from blocklearn.datasources.text.words import STOP_WORDS
from tests.mutations.facts import Facts, single, table_facts
from tests.support.formats import BIDMAT_DENSE, BIDMAT_SPARSE

DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
LARGEST = float(np.finfo(np.float32).max)


def unpack(path: Path) -> bytes:
    """Bytes, decompressed."""
    data = path.read_bytes()
    match path.suffix:
        case ".gz":
            return gzip.decompress(data)
        case ".bz2":
            return bz2.decompress(data)
        case ".xz":
            return lzma.decompress(data)
        case ".lz4":
            return unpack_lz4(data)
        case ".zst":
            with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                unpacked: bytes = stream.read()
                return unpacked
    return data


def unpack_lz4(data: bytes) -> bytes:
    """The framing of LZ4BlockOutputStream."""
    at, out, codec = 0, b"", pa.Codec("lz4_raw")
    while at < len(data):
        mark, token, packed, size, check = struct.unpack_from("<8sBiiI", data, at)
        at += 21
        if mark != b"LZ4Block":
            raise ValueError("no LZ4Block")
        piece = data[at : at + packed]
        at += packed
        if not size:
            continue
        if token >> 4 == 2:
            piece = codec.decompress(piece, size, asbytes=True)
        if len(piece) != size or xxhash.xxh32_intdigest(piece, 0x9747B28C) & 0x0FFFFFFF != check:
            raise ValueError("damaged")
        out += piece
    return out


def text_of(path: Path) -> str:
    """Text of a file without a byte order mark."""
    return unpack(path).decode("utf-8").removeprefix("\ufeff")


def lines_of(path: Path) -> list[str]:
    """Lines end with a newline, perhaps after a carriage return; the last one need not."""
    found = text_of(path).split("\n")
    if found[-1] == "":
        found.pop()
    return [line.removesuffix("\r") for line in found]


def plain_lines_of(path: Path) -> list[str]:
    """The same of files whose comments may be in any encoding."""
    return unpack(path).removeprefix(b"\xef\xbb\xbf").decode("latin1").split("\n")


def number(text: str) -> float:
    """A finite float32 in decimal digits; raises `ValueError`."""
    if not DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    value = float(text)
    if not abs(value) <= LARGEST:
        raise ValueError(f"{text!r} is no float32")
    return single(value)


def records(path: Path, separator: str = ",") -> list[list[str]]:
    """Records of one line each, however lines end; empty lines are none."""
    return [
        next(csv.reader([line], delimiter=separator, strict=True))
        for line in re.split("\r\n|\r|\n", text_of(path))
        if line
    ]


def table(
    path: Path,
    *,
    features: tuple[str, ...] | None = None,
    ids: str | None = None,
    targets: tuple[str, ...] = (),
) -> Facts:
    """A CSV file with names in its first line. features: None means all that are nothing else."""
    head, *rest = records(path)
    head = [name.strip() for name in head] if features is None else head
    if any(len(record) != len(head) for record in rest) or not rest:
        raise ValueError("records of different lengths, or none")
    if features is None:
        features = tuple(name for name in head if name != ids and name not in targets)
    wanted = [*features, *targets, *([ids] if ids else [])]
    if any(head.count(name) != 1 for name in wanted):
        raise ValueError("a column is missing, or there twice")
    by_name = {name: [record[head.index(name)] for record in rest] for name in wanted}
    numbers = {name: [number(x.strip()) for x in by_name[name]] for name in [*features, *targets]}
    X = np.array([numbers[name] for name in features], np.float32).reshape(len(features), -1).T
    about = table_facts(X) | {"rows": len(rest)}
    if targets:
        about["targets"] = [list(row) for row in zip(*(numbers[t] for t in targets), strict=True)]
    if ids:
        about["ids"] = by_name[ids]
    return about


def plain_table(path: Path) -> Facts:
    """A CSV file of numbers alone; an empty field is 0."""
    rows = [[number(x.strip()) if x.strip() else 0.0 for x in r] for r in records(path)]
    return table_facts(np.array(rows, np.float32))


def ratings(path: Path) -> Facts:
    """user,item,rating in any order of columns; the last of several counts."""
    head, *rest = records(path)
    head = [name.strip() for name in head]
    if any(len(record) != len(head) for record in rest):
        raise ValueError("records of different lengths")
    user, item, rating = (head.index(name) for name in ("user", "item", "rating"))
    found: dict[tuple[str, str], float] = {}
    for record in rest:
        if not record[user] or not record[item]:
            raise ValueError("empty id")
        found[record[user], record[item]] = number(record[rating].strip())
    users, items = (sorted_ids({key[side] for key in found}) for side in (0, 1))
    words: list[list[tuple[str, float]]] = [[] for _ in users]
    for (one, other), value in found.items():
        if value:
            words[users.index(one)].append((other, value))
    return {"rows": len(users), "ids": users, "words": [sorted(row) for row in words]}


def ratings_market(path: Path) -> Facts:
    """Rows and columns are called by their numbers."""
    found = matrix_market(path)
    words: list[list[tuple[str, float]]] = [[] for _ in range(found["rows"])]
    for row, place, value in found["entries"]:
        words[row].append((str(place), value))
    return {"words": [sorted(row) for row in words]}


def ratings_parquet(path: Path) -> Facts:
    """Columns user, item, rating; no pair comes twice."""
    table = pq.read_table(path, use_threads=False, page_checksum_verification=True)
    users, items, values = (table[name].to_pylist() for name in ("user", "item", "rating"))
    return of_ratings([str(x) for x in users], [str(x) for x in items], values)


def ratings_npz(path: Path) -> Facts:
    """Arrays user, item, rating; without ratings, each is 1."""
    with np.load(path, allow_pickle=False) as file:
        users, items = (file[name].tolist() for name in ("user", "item"))
        values = file["rating"].tolist() if "rating" in file else [1.0] * len(users)
    return of_ratings([str(x) for x in users], [str(x) for x in items], values)


def of_ratings(users: list[str], items: list[str], values: list[float]) -> Facts:
    """Rows of users; the last of several ratings counts."""
    found = {
        (user, item): single(float(value))
        for user, item, value in zip(users, items, values, strict=True)
    }
    names = sorted_ids(set(users))
    words: list[list[tuple[str, float]]] = [[] for _ in names]
    for (user, item), value in found.items():
        if value:
            words[names.index(user)].append((item, value))
    return {"rows": len(names), "ids": names, "words": [sorted(row) for row in words]}


def sorted_ids(ids: set[str]) -> list[str]:
    """As numbers where all are whole numbers, else as text."""
    if all(re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) for text in ids):
        return sorted(ids, key=int)
    return sorted(ids, key=lambda text: text.encode())


def libsvm(path: Path) -> Facts:
    """Labels, an optional qid, index:value pairs from 1 on, comments behind #."""
    entries, rows, targets = [], 0, []
    columns = 0
    for raw in unpack(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        parts = raw.partition(b"#")[0].split()
        if not parts:
            continue
        if b":" not in parts[0]:
            targets.append([number(label.decode()) for label in parts.pop(0).split(b",")])
        if parts and parts[0].startswith(b"qid:"):
            parts.pop(0)
        seen = set()
        for part in parts:
            index, value = part.split(b":")
            if not index.isdigit() or int(index) < 1 or int(index) in seen:
                raise ValueError(f"index {index!r}")
            seen.add(int(index))
            columns = max(columns, int(index))
            entries.append((rows, int(index) - 1, number(value.decode())))
        rows += 1
    about: Facts = {"rows": rows, "columns": columns}
    about["entries"] = sorted(entry for entry in entries if entry[2])
    if all(len(target) == 1 for target in targets) and len(targets) == rows:
        about["targets"] = targets
    return about


def libffm(path: Path) -> Facts:
    """A label, then field:index:value; an index of a field is a column."""
    rows, targets = [], []
    for raw in unpack(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not raw.strip():
            continue
        label, *parts = raw.split()
        row = {}
        for part in parts:
            field, index, value = part.split(b":")
            name = f"{int(field)}={int(index)}"
            if not field.isdigit() or not index.isdigit() or name in row:
                raise ValueError(f"column {part!r}")
            row[name] = number(value.decode())
        targets.append([number(label.decode())])
        rows.append(sorted((name, value) for name, value in row.items() if value))
    return {"rows": len(rows), "words": rows, "targets": targets}


def lda_c(path: Path) -> Facts:
    """The number of pairs, then word:count pairs from 0 on; as LIBSVM from 1 on."""
    found = [raw.partition(b"#")[0].split() for raw in unpack(path).split(b"\n")]
    entries: list[tuple[int, int, float]] = []
    rows = 0
    for parts in found:
        if not parts:
            continue
        pairs = [part.split(b":") for part in parts[1:]]
        if number(parts[0].decode()) != len(pairs) or len({int(w) for w, _ in pairs}) < len(pairs):
            raise ValueError(f"pairs {parts[0]!r}")
        if not all(word.isdigit() for word, _ in pairs):
            raise ValueError("words")
        entries += [(rows, int(word), number(count.decode())) for word, count in pairs]
        rows += 1
    if any(entry[2] < 0 for entry in entries):
        raise ValueError("a negative count")
    columns = max((word + 1 for _, word, _ in entries), default=0)
    return {"rows": rows, "columns": columns, "entries": sorted(e for e in entries if e[2])}


def coordinates(lines: list[str], rows: int, columns: int, count: int, valued: bool) -> Any:
    """Entries counted from 1, as a matrix."""
    triples = []
    for line in lines:
        parts = line.split()
        if not parts or parts[0].startswith("%"):
            continue
        row, column, value = [*parts, "1"] if not valued else parts
        if not (row.isascii() and row.isdigit() and column.isascii() and column.isdigit()):
            raise ValueError("no places")
        if not (1 <= int(row) <= rows and 1 <= int(column) <= columns):
            raise ValueError("out of range")
        triples.append((int(row) - 1, int(column) - 1, number(value)))
    if len(triples) != count:
        raise ValueError(f"{len(triples)} entries")
    places = [[triple[i] for triple in triples] for i in range(3)]
    return sparse.coo_array(
        (np.array(places[2], np.float64), (np.array(places[0], int), np.array(places[1], int))),
        shape=(rows, columns),
    )


def matrix_market(path: Path) -> Facts:
    """NISTIR 5935, coordinate matrices of real numbers."""
    lines = plain_lines_of(path)
    banner = lines[0].lower().split()
    if banner[:3] != ["%%matrixmarket", "matrix", "coordinate"]:
        raise ValueError("banner")
    at = 1
    while not lines[at].split() or lines[at].split()[0].startswith("%"):
        at += 1
    rows, columns, count = map(int, lines[at].split())
    X = coordinates(lines[at + 1 :], rows, columns, count, banner[3] != "pattern")
    if banner[4] != "general":
        sign = -1 if banner[4].startswith("skew") else 1
        away = X.coords[0] != X.coords[1]
        mirror = (sign * X.data[away], (X.coords[1][away], X.coords[0][away]))
        X = X + sparse.coo_array(mirror, shape=X.shape)
    return table_facts(X)


def bag_of_words(path: Path) -> Facts:
    lines = plain_lines_of(path)
    rows, columns, count = (int(line.strip()) for line in lines[:3])
    return table_facts(coordinates(lines[3:], rows, columns, count, True))


WORD = re.compile(r"[^\W\d_]{3,}")


def counted(texts: list[str]) -> list[list[tuple[str, float]]]:
    """Words with their counts, without stop words."""
    return [
        sorted(Counter(w for w in WORD.findall(t.lower()) if w not in STOP_WORDS).items())
        for t in texts
    ]


def text(path: Path) -> Facts:
    """A document per line."""
    lines = lines_of(path)
    return {"rows": len(lines), "words": counted(lines)}


def json_lines(path: Path) -> Facts:
    found = [json.loads(line) for line in lines_of(path) if line.strip()]
    targets = [float(record["y"]) for record in found]
    return {
        "rows": len(found),
        "words": counted([record["text"] for record in found]),
        "targets": [[single(target)] for target in targets],
    }


def json_texts(path: Path) -> Facts:
    """Texts without targets."""
    texts = [json.loads(line)["text"] for line in lines_of(path) if line.strip()]
    return {"rows": len(texts), "words": counted(texts)}


def csv_texts(path: Path) -> Facts:
    """Columns text and y; fields may have line breaks."""
    content = "".join(line + "\n" for line in lines_of(path))
    head, *rest = [r for r in csv.reader(io.StringIO(content, newline=""), strict=True) if r]
    head = [name.strip() for name in head]
    at, y = head.index("text"), head.index("y")
    if any(len(record) != len(head) for record in rest):
        raise ValueError("records of different lengths")
    return {
        "rows": len(rest),
        "words": counted([record[at] for record in rest]),
        "targets": [[number(record[y].strip())] for record in rest],
    }


def csv_texts_alone(path: Path) -> Facts:
    """Column text."""
    content = "".join(line + "\n" for line in lines_of(path))
    head, *rest = [r for r in csv.reader(io.StringIO(content, newline=""), strict=True) if r]
    at = [name.strip() for name in head].index("text")
    if any(len(record) != len(head) for record in rest):
        raise ValueError("records of different lengths")
    return {"rows": len(rest), "words": counted([record[at] for record in rest])}


def vowpal_wabbit(path: Path) -> Facts:
    """Labels, weights, and features with their values."""
    words, labels, weights = [], [], []
    for line in lines_of(path):
        if not line.strip():
            continue
        head, *spaces = line.split("|")
        found = head.split()
        if found and (found[-1].startswith("'") or not head[-1].isspace()):
            found.pop()
        if found:
            labels.append([number(found[0])])
        weights.append(number(found[1]) if len(found) > 1 else 1.0)
        counts: Counter[str] = Counter()
        for part in spaces:
            features, space, factor = part.split(), "", 1.0
            if features and not part[0].isspace():
                space, _, scale = features.pop(0).partition(":")
                factor = number(scale) if scale else 1.0
            nameless = (f":{i}" for i in itertools.count())
            for feature in features:
                name, colon, value = feature.partition(":")
                name = name or next(nameless)
                full = f"{space}^{name}" if space or "^" in name else name
                counts[full] += factor * (number(value) if colon else 1.0)  # type: ignore[assignment]
        words.append(sorted((name, single(value)) for name, value in counts.items() if value))
    return {"rows": len(words), "words": words, "weights": weights} | (
        {"targets": labels} if labels else {}
    )


def npz(path: Path) -> Facts:
    """A matrix of `scipy.sparse.save_npz`; members that say nothing of it are not read."""
    with np.load(path, allow_pickle=False) as file:
        kind = file["format"].item()
        kind = kind.decode() if isinstance(kind, bytes) else kind
        shape = tuple(file["shape"].tolist())
        if kind == "coo":
            data, places = file["data"], (file["row"], file["col"])
        else:
            data, places = file["data"], (file["indices"], file["indptr"])
    if any(array.ndim != 1 or array.dtype.kind not in "iu" for array in places):
        raise ValueError("no places")
    if data.dtype.kind not in "biuf":
        raise ValueError("no real numbers")
    if kind == "coo":
        return table_facts(sparse.coo_array((data.astype(np.float64), places), shape=shape))
    made = {"csr": sparse.csr_array, "csc": sparse.csc_array}[kind]
    X = made((data.astype(np.float64), *places), shape=shape)
    X.check_format()
    return table_facts(X)


def npz_of_targets(path: Path) -> Facts:
    """Its columns as targets."""
    return {"targets": rows_of(npz(path))}


def rows_of(facts: Facts) -> list[list[float]]:
    """The table that entries are of."""
    found = np.zeros((facts["rows"], facts["columns"]))
    for row, column, value in facts["entries"]:
        found[row, column] = value
    rows: list[list[float]] = found.tolist()
    return rows


def column(path: Path, what: str) -> Facts:
    """An array [rows] or [rows, targets] of targets or weights."""
    found = np.load(path, allow_pickle=False)
    if found.ndim not in (1, 2) or found.dtype.kind not in "biuf":
        raise ValueError("no table")
    with np.errstate(over="ignore"):
        values = found.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError("not finite")
    if what == "weights":
        return {"weights": values.tolist()}
    return {"targets": values.reshape(len(values), -1).tolist()}


def market_of_targets(path: Path) -> Facts:
    """Its columns as targets."""
    return {"targets": rows_of(matrix_market(path))}


def npy(path: Path) -> Facts:
    found = np.load(path, allow_pickle=False)
    if found.ndim != 2:
        raise ValueError("no table")
    return table_facts(np.asarray(found, np.float64))


def bidmat(path: Path) -> Facts:
    """The columns of a BIDMat matrix as rows."""
    data = unpack(path)
    word, columns, rows, nnz = struct.unpack_from("<4i", data)
    for kind, dtype in BIDMAT_DENSE.values():
        if word == kind:
            values = np.frombuffer(data, dtype, rows * columns, 16)
            expect(data, 16 + values.nbytes)
            return table_facts(values.reshape(rows, columns).astype(np.float64))
    (dtype,) = [dtype for kind, dtype in BIDMAT_SPARSE.values() if kind == word]
    indptr = np.frombuffer(data, "<i4", rows + 1, 16)
    indices = np.frombuffer(data, "<i4", nnz, 16 + indptr.nbytes)
    values = np.frombuffer(data, dtype, nnz, 16 + indptr.nbytes + indices.nbytes)
    expect(data, 16 + indptr.nbytes + indices.nbytes + values.nbytes)
    X = sparse.csr_array((values.astype(np.float64), indices, indptr), shape=(rows, columns))
    X.check_format()
    return table_facts(X)


def expect(data: bytes, size: int) -> None:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes, not {size}")


def hugectr_raw(path: Path) -> Facts:
    """One label, two dense features, two keys below 6 each."""
    data = path.read_bytes()
    if not data or len(data) % 20:
        raise ValueError("not whole records")
    numbers = np.frombuffer(data, "<f4").reshape(-1, 5)[:, :3]
    keys = np.frombuffer(data, "<u4").reshape(-1, 5)[:, 3:].astype(np.int64)
    if not np.isfinite(numbers).all() or keys.max() >= 6:
        raise ValueError("bad numbers or keys")
    X = np.zeros((len(numbers), 14))
    X[:, :2] = numbers[:, 1:]
    for slot in range(2):
        X[np.arange(len(X)), 2 + 6 * slot + keys[:, slot]] += 1
    return table_facts(X) | {"targets": numbers[:, :1].tolist()}


def hugectr_norm(path: Path) -> Facts:
    """All files of the list: one label, two dense features, three slots of keys below 6."""
    count, *names = path.read_text().split()
    if int(count) != len(names):
        raise ValueError("the list has another number of files")
    rows, targets = [], []
    for name in names:
        found, labels = norm_file((path.parent / name).read_bytes())
        rows += found
        targets += labels
    return table_facts(np.array(rows, np.float32).reshape(-1, 20)) | {"targets": targets}


def norm_file(data: bytes) -> tuple[list[list[float]], list[list[float]]]:
    """Features and labels of one file."""
    checked = data[:4] == (64).to_bytes(4, "little")
    at, rows, labels = 0, [], []

    def record(size: int | None = None) -> bytes:
        nonlocal at
        (length,) = struct.unpack_from("<i", data, at)
        content = data[at + 4 : at + 4 + length]
        if len(content) != length or sum(content) % 256 != data[at + 4 + length]:
            raise ValueError("check sum")
        at += 5 + length
        return content

    head = record() if checked else data[:64]
    at = at if checked else 64
    check, count, *sizes = struct.unpack("<5q", head[:40])
    if sizes != [1, 2, 3] or check != checked:
        raise ValueError("another layout")
    for _ in range(count):
        content = record() if checked else data[at:]
        label, *dense = struct.unpack_from("<3f", content)
        row, here = [0.0] * 20, 12
        row[:2] = dense
        for slot in range(3):
            (n,) = struct.unpack_from("<i", content, here)
            keys = struct.unpack_from(f"<{n}I", content, here + 4)
            here += 4 + 4 * n
            for key in keys:
                if key >= 6:
                    raise ValueError("key")
                row[2 + 6 * slot + key] += 1
        if checked and here != len(content):
            raise ValueError("length")
        at += 0 if checked else here
        rows.append(row)
        labels.append([label])
    if at != len(data):
        raise ValueError("bytes behind the records")
    return rows, labels


def parquet(path: Path) -> Facts:
    """Columns i and v with indices below 50 and values, e with 3 numbers, c below 9, y the target;
    those that are there.
    """
    found = pq.read_table(path, use_threads=False, page_checksum_verification=True)
    y = np.asarray(found["y"].to_numpy(), np.float64)
    if not np.isfinite(y).all():
        raise ValueError("a target that is not finite")
    parts = []
    if "e" in found.column_names:
        numbers = found["e"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        parts.append(sparse.csr_array(np.asarray(numbers, np.float64).reshape(len(y), 3)))
    if "c" in found.column_names:
        category = np.asarray(found["c"].to_numpy(), np.int64)
        ones = np.ones(len(y))
        parts.append(sparse.csr_array((ones, (np.arange(len(y)), category)), shape=(len(y), 9)))
    if "i" in found.column_names:
        indices, values = found["i"].to_pylist(), found["v"].to_pylist()
        rows = np.repeat(np.arange(len(y)), [len(row) for row in indices])
        flat = [x for row in indices for x in row]
        weights = [x for row, other in zip(indices, values, strict=True)
                   for _, x in zip(row, other, strict=True)]  # fmt: skip
        arrays = (np.array(weights, np.float64), (rows, np.array(flat, np.int64)))
        parts.append(sparse.csr_array(arrays, shape=(len(y), 50)))
    return table_facts(sparse.hstack(parts, "csr")) | {"targets": [[single(x)] for x in y]}


def parquet_table(path: Path) -> Facts:
    """Columns a, b with numbers (null is 0), y the target."""
    found = pq.read_table(path, use_threads=False, page_checksum_verification=True)
    columns = [
        np.array([0.0 if x is None else float(x) for x in found[name].to_pylist()])
        for name in ("a", "b")
    ]
    y = [[single(float(x))] for x in found["y"].to_pylist()]
    return table_facts(np.array(columns).T) | {"targets": y}


def parquet_texts(path: Path) -> Facts:
    """Columns text and y."""
    found = pq.read_table(path, use_threads=False, page_checksum_verification=True)
    return {
        "rows": found.num_rows,
        "words": counted(found["text"].to_pylist()),
        "targets": [[single(float(x))] for x in found["y"].to_pylist()],
    }
