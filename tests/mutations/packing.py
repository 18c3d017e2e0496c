"""Damage inside a packed file, which is packed again: its check sums are right."""

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
from typing import Any

import pyarrow as pa
import xxhash

from tests.mutations.damage import Damage, Random, choose
from tests.mutations.trees import change
from tests.support.formats import lz4_blocks


def pack(data: bytes, suffix: str) -> bytes:
    """`data` as files that end with `suffix` have it."""
    match suffix:
        case ".gz":
            return gzip.compress(data, mtime=0)
        case ".bz2":
            return bz2.compress(data)
        case ".xz":
            return lzma.compress(data)
        case ".lz4":
            return lz4_blocks(data, 1 << 10)
        case ".zst":
            sink = pa.BufferOutputStream()
            with pa.CompressedOutputStream(sink, "zstd") as stream:
                stream.write(data)
            packed: bytes = sink.getvalue().to_pybytes()
            return packed
    return data


def inside(damages: list[Damage], suffix: str, unpacked: bytes) -> Damage:
    """Damage to what is packed; `unpacked` is what it was."""

    def damage(rng: Random, data: bytes, other: bytes) -> bytes:
        return pack(choose(rng, damages)(rng, unpacked, unpacked), suffix)

    return damage


def inside_zip(damages: list[Damage]) -> Damage:
    """Damage to a member of an archive, or to the list of members."""

    def damage(rng: Random, data: bytes, other: bytes) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
        except Exception:  # other damage came first
            return data
        names = list(members)
        name, one = choose(rng, names), choose(rng, names)
        match int(rng.integers(8)):
            case 0:
                del members[name]
            case 1:
                members[name] = members[one]
            case 2:
                members[name.replace(".npy", "x.npy")] = members.pop(name)
            case _:
                members[name] = choose(rng, damages)(rng, members[name], members[one])
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return written.getvalue()

    return damage


def change_npy_header(rng: Random, data: bytes, other: bytes) -> bytes:
    """Another shape, dtype, order or length in the header of an array."""
    end = data.find(b"\n") + 1
    header = data[:end]
    new = choose(
        rng,
        [b"(0,)", b"()", b"(-1, 3)", b"(12,)", b"(6, 12)", b"(999999999999, 6)", b"(12, 6, 1)",
         b"(2147483648, 2147483648, 4)", b"(12.0, 6)", b"(True, 6)", b"('a',)", b"(1" * 400],
    )  # fmt: skip
    kind = choose(
        rng,
        [b"'<f8'", b"'>f4'", b"'<i8'", b"'|b1'", b"'<c8'", b"'|O'", b"'<U3'", b"'|V8'", b"'<f2'",
         b"'<M8[s]'", b"[('a','<f4')]", b"'<u8'", b"'<f16'", b"'x'", b"1", b"'<i1'"],
    )  # fmt: skip
    match int(rng.integers(4)):
        case 0:
            header = re.sub(rb"'[<>|=][a-zA-Z]\d+'", lambda _: kind, header, count=1)
        case 1:
            header = re.sub(rb"\([\d, ]*\)", lambda _: new, header, count=1)
        case 2:
            header = header.replace(b"False", choose(rng, [b"True ", b"None ", b"0    "]))
        case _:
            header = header[:6] + bytes(rng.integers(0, 256, 4).tolist()) + header[10:]
    return header + data[end:]


def footer(rng: Random, data: bytes, other: bytes) -> bytes:
    """The footer of a Parquet file: of another file, cut, moved, of another length, or twice."""
    size = int.from_bytes(data[-8:-4], "little")
    other_size = int.from_bytes(other[-8:-4], "little")
    body, foot = data[: -8 - size], data[-8 - size :]
    match int(rng.integers(6)):
        case 0:
            return body + other[-8 - other_size :]
        case 1:
            lengths = [0, 1, size - 1, size + 1, size * 2, 2**31, 2**32 - 1, len(data)]
            return data[:-8] + choose(rng, lengths).to_bytes(4, "little") + data[-4:]
        case 2:
            return data + foot
        case 3:
            return body[: int(rng.integers(len(body) + 1))] + foot
        case 4:
            return b"PAR1" + foot
        case _:
            changed = bytearray(foot)
            for at in rng.integers(0, max(1, size), int(rng.integers(1, 4))):
                changed[int(at)] = int(rng.integers(256))
            return body + bytes(changed)


def change_signed_json(rng: Random, data: bytes, other: bytes) -> bytes:
    """The JSON of a model or checkpoint with something else in it, and the right digest."""
    try:
        content = json.loads(data)
        content.pop("digest", None)
    except (ValueError, AttributeError):
        return data
    changed = change(rng, content)
    if isinstance(changed, dict):
        canonical = json.dumps(changed, sort_keys=True, separators=(",", ":"))
        changed["digest"] = xxhash.xxh3_128_hexdigest(canonical.encode())
    return json.dumps(changed, indent=2).encode()


def change_signed_manifest(rng: Random, data: bytes, other: bytes) -> bytes:
    """The manifest of a block dataset with something else in it, and the right digest."""
    try:
        content = json.loads(data)
        content.pop("digest", None)
    except (ValueError, AttributeError):
        return data
    changed: Any = change(rng, content)
    if not isinstance(changed, dict):
        return json.dumps(changed).encode()
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in changed.items()]
    body = (",\n".join(lines) + "\n}\n").encode()
    return f'{{"digest": "{xxhash.xxh3_128_hexdigest(body)}",\n'.encode() + body
