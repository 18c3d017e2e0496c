"""Secrets: no user, password, token or signature of a URL is written, printed or logged."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blocklearn.datasources import secrets
from blocklearn.datasources.remote.errors import RemoteError
from blocklearn.datasources.remote.http_files import HttpFiles
from blocklearn.datasources.remote.http_request import Patience
from blocklearn.datasources.secrets import hidden, hidden_leaves, hidden_url, is_hidden
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.references import KeptReferences
from blocklearn.learner.configuration.yaml_config import Setting, resolve, to_yaml
from blocklearn.learner.errors import ConfigError
from tests.support.learn_command import Learn, command  # noqa: F401
from tests.support.web_servers import Handler, serving

USER, PASSWORD, TOKEN, SIGNATURE = "mallory", "hunter2000", "tok-31415926", "si%2Fg%2B27182"
SECRETS = (USER, PASSWORD, TOKEN, SIGNATURE, "si/g+27182")


# ---- patterns ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url, shown",
    [
        ("https://host/x", "https://host/x"),
        ("https://mallory@host/x", "https://***@host/x"),
        ("https://mallory:hunter2000@host:80/x", "https://***@host:80/x"),
        ("https://mallory:hunt@er2000@host/x", "https://***@host/x"),
        ("hdfs://mallory@name:8020/x@y", "hdfs://***@name:8020/x@y"),
        ("https://host/a@b/x", "https://host/a@b/x"),
        ("https://host/x?sig=27182&se=2027", "https://host/x?sig=***&se=***"),
        ("https://host/x?27182", "https://host/x?***"),
        ("https://host/x?a=1;token=27182#access_token=2", "https://host/x?a=***;token=***#access_token=***"),
        ("https://host/x?sig=", "https://host/x?sig="),
        ("https://host/x?sig=a b c", "https://host/x?sig=***"),
        ("s3://b/k?region=eu&scheme=http&key=1", "s3://b/k?region=eu&scheme=http&key=***"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("abfss://box:27182@account/x", "abfss://***@account/x"),
        ("/data/a@b?sig=1", "/data/a@b?sig=1"),
    ],
)  # fmt: skip
def test_urls(url: str, shown: str) -> None:
    assert hidden_url(url) == shown
    assert is_hidden(shown) == ("***" in shown)
    assert hidden_url(shown) == shown


@pytest.mark.parametrize(
    "text, shown",
    [
        ("'https://u:p@h/x': gone", "'https://***@h/x': gone"),
        ("(see http://h/x?sig=1, or http://h/y?sig=2).", "(see http://h/x?sig=***, or http://h/y?sig=***)."),
        ("password=hunter2000, rest", "password=***, rest"),
        ("aws_secret_access_key = 'a b'", "aws_secret_access_key = ***"),
        ('{"session_token": "27182", "rows": 1}', '{"session_token": ***, "rows": 1}'),
        ("Authorization: Bearer 27182", "Authorization: ***"),
        ("key AKIAIOSFODNN7EXAMPLE is unknown", "key *** is unknown"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abc_-", "***"),
        ("cannot start any token: at 3", "cannot start any token: at 3"),
        ("tokens=5: must be 6", "tokens=5: must be 6"),
        ("elbo_per_token -7.1", "elbo_per_token -7.1"),
        ("data.train.key: unknown key", "data.train.key: unknown key"),
    ],
)  # fmt: skip
def test_texts(text: str, shown: str) -> None:
    assert hidden(text, {}) == shown


def test_values_of_secret_variables() -> None:
    environ = {"STORE_TOKEN": "tok-31415926", "AWS_SECRET_ACCESS_KEY": "x" * 9, "HOME": "/home/me"}
    assert hidden("https://h/tok-31415926/x " + "x" * 9, environ) == "https://h/***/x ***"
    assert hidden("/home/me and true", environ | {"A_KEY": "true"}) == "/home/me and true"


def test_leaves_that_are_no_urls_stay() -> None:
    tree = {"a": ["data/token=1/x", "https://u@h/x"], "b": 1, "c": None}
    shown = {"a": ["data/token=1/x", "https://***@h/x"], "b": 1, "c": None}
    assert hidden_leaves(tree) == shown


def test_what_a_server_repeats() -> None:
    def answer(request: Handler) -> None:
        request.say(400, f"<Signature>si/g+27182</Signature> {request.path}".encode())

    with serving(answer) as server:
        url = f"http://{server.address}/x?sig={SIGNATURE}"
        with pytest.raises(RemoteError, match="<Signature>") as caught:
            HttpFiles(Patience(1.0, 1, 0.001)).status(url)
    assert_clean(str(caught.value))


# ---- references ----------------------------------------------------------------------------------

MODEL = "model: {kind: lda, topics: 2}\n"


def config(path: Path, text: str, environ: dict[str, str]) -> RunConfig:
    path.write_text(MODEL + text)
    return resolve(RunConfig, [path], environ)


def test_references_are_expanded_and_written_as_they_were(tmp_path: Path) -> None:
    text = (
        "data:\n  train:\n    kind: parquet\n"
        "    path: ['https://h/${TOKEN}/x?sig=${SIG}', 'a//b$${X}']\n    features: {indices: w}\n"
        "out: ${PLACE}//run\n"
    )
    environ = {"TOKEN": TOKEN, "SIG": SIGNATURE, "PLACE": str(tmp_path)}
    found = config(tmp_path / "a.yaml", text, environ)
    assert found.data.train.path == [f"https://h/{TOKEN}/x?sig={SIGNATURE}", "a//b${X}"]
    assert found.out == tmp_path / "run"
    written = to_yaml(found)
    assert_clean(written)
    assert "https://h/${TOKEN}/x?sig=${SIG}" in written and "a//b$${X}" in written
    assert "out: ${PLACE}//run" in written
    (tmp_path / "b.yaml").write_text(written)
    assert resolve(RunConfig, [tmp_path / "b.yaml"], environ) == found
    assert to_yaml(found.model_copy(update={"learner": found.learner})) == written


def test_references_of_variables_that_are_not_set(tmp_path: Path) -> None:
    text = "data:\n  train: {kind: file, path: '${PLACE}/x'}\nout: ${OUT\n"
    with pytest.raises(ConfigError) as caught:
        config(tmp_path / "a.yaml", text, {})
    missing, wrong = caught.value.problems
    assert missing.endswith(
        "a.yaml:3:29: data.train.path=${PLACE}: must be a variable that is set. Set it: export "
        "PLACE=..."
    )
    assert wrong.endswith(
        "a.yaml:4:6: out=${OUT: must be ${NAME} with the name of a variable. Write $${ for these "
        "two characters themselves."
    )


def test_mistakes_show_the_reference(tmp_path: Path) -> None:
    text = "data: {train: {kind: python-docs}, block_rows: '${TOKEN}'}\n"
    with pytest.raises(ConfigError, match=r'not "\$\{TOKEN\}"') as caught:
        config(tmp_path / "a.yaml", text, {"TOKEN": TOKEN})
    assert_clean(str(caught.value))


def test_data_that_need_not_be_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MODEL + "data: {train: {kind: file, path: '${A}/${B}'}}\n")
    found = resolve(RunConfig, [tmp_path / "a.yaml"], {}, meanings=KeptReferences({"A": "1"}))
    assert found.data.train.path == Path("1/${B}")


def test_references_in_settings_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MODEL + "data: {train: {kind: python-docs}}\n")
    settings = [Setting("out", "${TOKEN}", "--out", literal=True)]
    found = resolve(RunConfig, [tmp_path / "a.yaml"], {"TOKEN": TOKEN}, settings)
    assert found.out == Path(TOKEN)
    assert "out: ${TOKEN}" in to_yaml(found)


# ---- all outputs ---------------------------------------------------------------------------------


def assert_clean(text: str) -> None:
    found = [secret for secret in SECRETS if secret in text]
    assert not found, text


def assert_clean_folder(folder: Path, but: frozenset[str] = frozenset()) -> None:
    """No file has a secret, compressed ones and those of hidden names included."""
    for file in folder.rglob("*"):
        if file.is_file() and file.name not in but:
            data = file.read_bytes()
            assert not [secret for secret in SECRETS if secret.encode() in data], file


@pytest.fixture(scope="module")
def table() -> bytes:
    """A Parquet file of 200 rows of words."""
    rng = np.random.default_rng(0)
    words = [sorted(set(rng.integers(0, 12, 6).tolist())) for _ in range(200)]
    counts = [[1.0] * len(row) for row in words]
    file = BytesIO()
    pq.write_table(pa.table({"words": words, "counts": counts}), file)
    return file.getvalue()


@pytest.fixture
def address(table: bytes) -> Iterator[str]:
    """A server that hands it out, and says no to other names."""

    def answer(request: Handler) -> None:
        if not request.parts.path.endswith("/x.parquet"):
            return request.say(404)
        start, _, last = request.headers["Range"].removeprefix("bytes=").partition("-")
        part = table[int(start) : int(last) + 1]
        place = f"bytes {start}-{int(start) + len(part) - 1}/{len(table)}"
        request.say(206, part, Content_Range=place, ETag='"1"')
        return None

    with serving(answer) as server:
        yield server.address


TRAINING = """\
model: {{kind: lda, topics: 2}}
data:
  train: {{kind: parquet, path: '{url}', features: {{indices: words, values: counts, size: 12}}}}
  eval: {{kind: holdout, share: 0.1}}
  block_rows: 32
learner: {{passes: {passes}, report: true, tensorboard: true, prometheus: m.prom, threads: 1}}
"""


def test_no_output_of_any_command_has_a_secret(
    command: Learn,  # noqa: F811
    address: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = f"http://{USER}:{PASSWORD}@{address}/{{}}.parquet?token={TOKEN}&sig={SIGNATURE}"
    good, gone = url.format("x"), url.format("gone")
    (tmp_path / "a.yaml").write_text(TRAINING.format(url=good, passes=2))
    (tmp_path / "b.yaml").write_text(TRAINING.format(url=gone, passes=2))
    parquet = "--set", f"data.train.path={good}"
    for arguments, expected in [
        (["--config", "a.yaml", "--dry-run"], 0),
        (["--config", "a.yaml", "--out", "run", *parquet, "--log-format", "json"], 0),
        (["--config", "b.yaml", "--out", "none", "-v"], 66),
        (["--config", "a.yaml", "--set", good], 78),
        (["--config", "a.yaml", "--set", f"model={good}"], 78),
        (["config", "--config", "a.yaml"], 0),
        (["report", "run"], 0),
        (["compare", "run"], 0),
        (["inspect", "run", "--json"], 0),
        (["inspect", good], 0),
        (["inspect", good, "--json", "-q"], 0),
        (["inspect", gone], 66),
        (["predict", "run", "--data", good], 0),
        (["predict", "run", "--data", gone], 66),
        (["predict", "run", "--data", good, "--out", "p.parquet"], 0),
        (["evaluate", "run", "--data", good], 0),
        (["topics", "run"], 0),
        (["convert", good, "blocks"], 0),
        (["convert", gone, "blocks2"], 66),
        (["convert", good, "blocks"], 2),
        (["inspect", "blocks"], 0),
        (["inspect", "blocks", "--json"], 0),
        (["doctor", "--fs", good, "--json"], None),
    ]:
        code, out, err = command(*arguments)
        assert expected in (code, None), (arguments, out, err)
        assert_clean(out + err)
    assert_clean_folder(tmp_path, but=frozenset({"a.yaml", "b.yaml"}))
    assert "this URL contains a secret" in caplog.text
    manifest = json.loads((tmp_path / "blocks" / "manifest.json").read_text())
    assert f"http://***@{address}/x.parquet?token=***&sig=***" in manifest["origin"]


def test_warnings_that_are_printed_have_no_secrets() -> None:
    from blocklearn.learner.terminal import MessageFormatter

    record = logging.LogRecord("x", logging.WARNING, "", 0, "%s\x1b", ("http://u:p@h/x",), None)
    assert MessageFormatter().format(record) == "http://***@h/x\\u001b"


def test_a_run_goes_on_where_its_secret_is_a_reference(
    command: Learn,  # noqa: F811
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"http://${{WHO}}:${{PW}}@{address}/x.parquet?sig=${{SIG}}"
    for name, value in {"WHO": USER, "PW": PASSWORD, "SIG": SIGNATURE}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "a.yaml").write_text(TRAINING.format(url=url, passes=1))
    assert command("--config", "a.yaml", "--out", "run")[0] == 0
    assert_clean_folder(tmp_path)
    on = "--config", "run/config.yaml", "--resume", "auto", "--set"
    assert command(*on, "learner.passes=2")[0] == 0  # its own configuration will do
    monkeypatch.setenv("SIG", "another")
    assert command(*on, "learner.passes=3")[0] == 0
    monkeypatch.delenv("SIG")
    code, _, err = command(*on, "learner.passes=4")
    assert code == 78 and "data.train.path=${SIG}: must be a variable that is set" in err
    assert command("predict", "run", "--data", f"http://{address}/x.parquet")[0] == 0


@pytest.mark.slow
def test_a_run_goes_on_where_its_secret_was_written_out(
    command: Learn,  # noqa: F811
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"http://{USER}:{PASSWORD}@{address}/x.parquet?sig={SIGNATURE}"
    (tmp_path / "a.yaml").write_text(TRAINING.format(url=url, passes=1))
    assert command("--config", "a.yaml", "--out", "run")[0] == 0
    on = "--out", "run", "--resume", "auto", "--set"
    code, _, err = command("--config", "run/config.yaml", *on, "learner.passes=2")
    assert code == 78
    assert f"data.train.path=http://***@{address}/x.parquet?sig=***: must be the whole URL" in err
    assert command("--config", "a.yaml", *on, "learner.passes=2")[0] == 0
    written = url.replace(SIGNATURE, "${SIG}").replace(f"{USER}:{PASSWORD}", "${WHO}:${PW}")
    (tmp_path / "b.yaml").write_text(TRAINING.format(url=written, passes=3))
    for name, value in {"WHO": USER, "PW": PASSWORD, "SIG": SIGNATURE}.items():
        monkeypatch.setenv(name, value)
    assert command("--config", "b.yaml", *on, "learner.passes=3")[0] == 0  # as it was told to
    elsewhere = f"http://{address}/other/x.parquet"
    (tmp_path / "c.yaml").write_text(TRAINING.format(url=elsewhere, passes=4))
    code, _, err = command("--config", "c.yaml", *on, "learner.passes=4")
    assert code == 78 and "data.train.path" in err  # other data are other data
    assert_clean(err)


def test_the_patterns_are_in_one_module() -> None:
    """Another list of names of secrets would be forgotten when this one grows."""
    package = Path(secrets.__file__).parents[2]
    found = [
        path.name
        for folder in ("learner", "datasources", "models", "matcache", "optimizers", "mixins")
        for path in (package / folder).rglob("*.py")
        if "passwd" in path.read_text(encoding="utf-8").lower()
    ]
    assert found == ["secrets.py"]
