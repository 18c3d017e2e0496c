"""Datasets, predictions and models written to real servers of stores, which fail now and then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import BlockSource, MatrixSource
from blocklearn.datasources.blocks.write import write_blocks
from blocklearn.datasources.remote import Patience, StoredPath, place_of, put
from blocklearn.learner.errors import ModelMissingError
from tests.support.failing_proxy import failing
from tests.support.learn_command import Learn
from tests.support.stores import STORES, Store, started
from tests.support.web_servers import closed_port

pytestmark = pytest.mark.services
FEW = Patience(timeout=5, attempts=6)
X = sparse.csr_array(np.random.default_rng(0).poisson(0.3, (50, 12)).astype(np.float32))


@pytest.fixture(scope="module", params=STORES, ids=lambda store: store.scheme)
def store(request: pytest.FixtureRequest) -> Store:
    """S3, or the stores that BLOCKLEARN_STORES names."""
    if request.param.scheme not in os.environ.get("BLOCKLEARN_STORES", "s3").split(","):
        pytest.skip("its emulator does not keep every promise: BLOCKLEARN_STORES=s3,gs,az runs it")
    return request.param


@pytest.fixture(scope="module")
def address(store: Store) -> Iterator[str]:
    with started(store) as found:
        yield found


def stored(url: str) -> StoredPath:
    place = place_of(url, FEW)
    assert isinstance(place, StoredPath)
    return place


def leave_out_azure(store: Store) -> None:
    if store.scheme == "az":
        pytest.skip("Arrow's client of Azure did not answer within minutes through the proxy")


@pytest.mark.parametrize("size", [1, 30 << 20])
@pytest.mark.parametrize("fault", ["503", "cut"])
def test_a_store_that_fails_now_and_then_has_the_file(
    store: Store, address: str, fault: str, size: int, tmp_path: Path
) -> None:
    """Of any size: a large one is sent in several requests."""
    leave_out_azure(store)
    if fault == "cut" and store.scheme == "gs":
        pytest.skip("the emulator forgets an upload that is complete, which Google does not")
    (tmp_path / "f").write_bytes(np.random.default_rng(0).bytes(size))
    with failing(address, fault, every=3) as server:
        for _ in range(2):
            put(tmp_path / "f", stored(store.url("files/f", server.address)), FEW)
    place = stored(store.url("files/f", address))
    assert place.read_bytes() == (tmp_path / "f").read_bytes()
    assert len(place.files.children("box/files")) == 1
    assert server.failed >= 1
    place.files.remove(place.path)
    place.files.remove(place.path)
    assert not place.exists()


def test_a_store_that_fails_always_has_nothing(store: Store, address: str, tmp_path: Path) -> None:
    leave_out_azure(store)
    (tmp_path / "f").write_bytes(b"data" * 1000)
    with failing(address, "503", every=1) as server:
        place = place_of(store.url("none/f", server.address), Patience(timeout=2, attempts=2))
        assert isinstance(place, StoredPath)
        with pytest.raises(OSError):
            put(tmp_path / "f", place, Patience(timeout=2, attempts=2))
    assert not stored(store.url("none/f", address)).exists()


def test_commands_write_to_a_store(
    store: Store, address: str, tmp_path: Path, command: Learn
) -> None:
    """convert, save, predict: what is read from there is what one gets on a disk."""
    lines = [
        "1 " + " ".join(f"{j + 1}:1" for j in row.indices)
        for row in map(X.__getitem__, [[i] for i in range(50)])
    ]
    (tmp_path / "x.libsvm").write_text("\n".join(lines) + "\n")
    url = store.url("sets/x", address)
    given = ["convert", str(tmp_path / "x.libsvm")]
    assert command(*given, url, "--block-rows", "10")[0] == 0
    assert command(*given, str(tmp_path / "x"), "--block-rows", "10")[0] == 0
    far, near = BlockSource([url]), BlockSource([tmp_path / "x"])
    assert far.fingerprint == near.fingerprint
    code, _, said = command(*given, url)
    assert code != 0 and "a dataset exists already" in said
    assert command(*given, url, "--overwrite", "--block-rows", "10")[0] == 0

    model = bl.Learner(bl.models.LDA(topics=3), near, passes=1, threads=1, verbose=False).fit()
    home = store.url("models/lda", address)
    with pytest.raises(ModelMissingError):
        bl.load(home)
    bl.save(model, home)
    loaded = bl.load(home, threads=1)
    assert loaded.parameter("lambda").tobytes() == model.parameter("lambda").tobytes()
    bl.save(model, tmp_path / "model")
    given = ["predict", str(tmp_path / "model"), "--data", url, "--out"]
    assert command(*given, store.url("out/p.parquet", address))[0] == 0
    assert command(*given, str(tmp_path / "p.parquet"))[0] == 0
    expected = (tmp_path / "p.parquet").read_bytes()
    assert stored(store.url("out/p.parquet", address)).read_bytes() == expected
    code, _, said = command(*given, store.url("out/p.parquet", address))
    assert code != 0 and "the file exists already" in said


def test_a_learner_resumes_from_checkpoints_in_a_store(
    store: Store, address: str, tmp_path: Path
) -> None:
    def trained(name: str, passes: int, url: str | None) -> bl.Learner:
        hooks = [bl.Checkpoints(tmp_path / name, store=url)]
        model = bl.models.NMF(components=3)
        return bl.Learner(
            model, X, passes=passes, block_rows=10, threads=1, hooks=hooks, verbose=False
        ).fit()

    url = store.url("runs/nmf", address)
    expected = trained("whole", 4, None).parameter("H").tobytes()
    trained("lost", 3, url)
    found = trained("new", 4, url)
    assert len(found.history) == 1 and found.parameter("H").tobytes() == expected
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["pass-0003", "pass-0004"]
    for name in ("pass-0001", "pass-0003"):
        manifest = stored(store.url(f"runs/nmf/{name}/checkpoint.json", address))
        assert manifest.exists() == (name in names)


def test_a_dataset_that_could_not_be_sent_is_sent_later(
    store: Store, address: str, tmp_path: Path, command: Learn
) -> None:
    """No store answers; the conversion resumes from its staging folder."""
    if store.scheme != "s3":
        pytest.skip("clients of other stores wait for minutes where no server answers")
    write_blocks(MatrixSource(X, block_rows=10), [tmp_path / "x"])
    staging = ["--staging", str(tmp_path / "staging"), "--quiet"]
    given = ["convert", str(tmp_path / "x")]
    url = store.url("sets/y", closed_port())
    assert command(*given, url, *staging, "--overwrite")[0] != 0
    assert (tmp_path / "staging").is_dir()
    assert not stored(store.url("sets/y/manifest.json", address)).exists()
    assert command(*given, store.url("sets/y", address), *staging, "--resume")[0] == 0
    assert BlockSource([store.url("sets/y", address)]).shape.total_rows == 50
    assert not (tmp_path / "staging").exists()
