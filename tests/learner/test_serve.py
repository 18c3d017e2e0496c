"""`learn serve` answers like `learn predict`, refuses what is hostile, and keeps its limits."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blocklearn.learner.command_line import serve_commands
from tests.support.learn_command import Learn, started

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from tests.support.service import Client, service

WORDS = {
    "net": "socket network packet address server client port".split(),
    "math": "matrix vector tensor gradient sparse dense column".split(),
}


def learn(folder: Path, *arguments: str) -> str:
    """What a `learn` command prints that runs in `folder`."""
    from contextlib import chdir, redirect_stdout
    from io import StringIO

    from blocklearn.learner.command_line.cli import main

    out = StringIO()
    with chdir(folder), redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0, out.getvalue()
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and runs: topics of docs.txt, targets of rows.csv, ratings.csv."""
    folder = tmp_path_factory.mktemp("served")
    random.seed(1)
    kinds = ["net", "math"] * 20
    docs = [" ".join(random.choices(WORDS[kind], k=8)) for kind in kinds]
    (folder / "docs.txt").write_text("\n".join(docs))
    with (folder / "rows.csv").open("w") as file:
        table = csv.writer(file)
        table.writerow(["age", "section", "label"])
        for i in range(40):
            table.writerow([20 + i, ["python", "c", "7"][i % 3], ["yes", "no"][i % 2]])
    with (folder / "ratings.csv").open("w") as file:
        table = csv.writer(file)
        table.writerow(["user", "item", "rating"])
        for user in range(12):
            for item in random.sample(range(9), 4):
                table.writerow([f"user {user}", f"film {item}", 1 + (user + item) % 5])
    common = ["learner.passes=2", "learner.report=false", "data.eval=null"]
    for model, file, own in (
        ("lda", "docs.txt", ["model.topics=2", "model.inference=cvb0", "data.train.max_df=1.0"]),
        ("glm", "rows.csv", []),
        ("als", "ratings.csv", ["model.rank=4"]),
    ):
        sets = [part for setting in common + own for part in ("--set", setting)]
        learn(folder, model, str(folder / file), "--out", model, "-q", "--threads", "1", *sets)
    return folder


@pytest.fixture(scope="module")
def topics(folder: Path) -> Iterator[Client]:
    with service(folder / "lda", lines=True, max_body=10_000, max_rows=40) as client:
        yield client


@pytest.fixture(scope="module")
def ratings(folder: Path) -> Iterator[Client]:
    with service(folder / "als") as client:
        yield client


def of_command(folder: Path, run: str, data: str) -> list[Any]:
    lines = learn(folder, "predict", run, "--data", data, "--out", "-").splitlines()
    return [json.loads(line)["prediction"] for line in lines]


# ------------------------------------------------------------- the answers


def test_topics_of_documents_are_those_of_learn_predict(folder: Path, topics: Client) -> None:
    rows = (folder / "docs.txt").read_text().splitlines()
    status, answer = topics.ask("/predict", {"rows": rows})
    assert (status, answer["predictions"]) == (200, of_command(folder, "lda", "docs.txt"))
    assert answer["names"] == ["0", "1"] and answer["unknown"] == [0] * len(rows)


def test_a_document_is_text_or_words_or_counts(topics: Client) -> None:
    forms = ["Socket, socket: port!", ["socket", "socket", "port"], {"socket": 2, "port": 1}]
    answers = [topics.ask("/predict", {"rows": [form, "matrix"]}) for form in forms]
    assert answers[0][0] == 200 and answers == answers[:1] * 3


def test_unknown_words_are_counted(topics: Client) -> None:
    status, answer = topics.ask("/predict", {"rows": ["zebra yak zebra", "socket", ""]})
    assert status == 200 and answer["unknown"] == [2, 0, 0]
    assert answer["predictions"][0] == answer["predictions"][2] == [0.5, 0.5]


def test_topics_with_their_names(folder: Path, topics: Client) -> None:
    _, shares = topics.ask("/predict", {"rows": ["socket port server"]})
    status, answer = topics.ask("/topics", {"rows": ["socket port server"], "top": 1})
    (largest,) = answer["topics"][0]
    assert status == 200 and largest["share"] == max(shares["predictions"][0])
    assert topics.ask("/topics", {"rows": ["socket"], "least": 1.0})[1]["topics"] == [[]]
    printed = learn(folder, "topics", "lda", "--top", "3", "--relevance", "0.6", "--json")
    status, answer = topics.ask("/topics?top=3&relevance=0.6")
    assert (status, answer["topics"]) == (200, json.loads(printed))


def test_rows_of_a_table_are_those_of_learn_predict(folder: Path) -> None:
    with (folder / "rows.csv").open() as file:
        rows = [{**row, "age": int(row["age"])} for row in csv.DictReader(file)]
    rows[2]["section"] = 7  # a number in a file of text is text
    with service(folder / "glm") as client:
        status, answer = client.ask("/predict", {"rows": rows})
        assert (status, answer["predictions"]) == (200, of_command(folder, "glm", "rows.csv"))
        assert answer["names"] == ["no", "yes"]
        for row, said in (
            ({"age": 30}, "rows[0]: 'section' is missing"),
            ({"age": 30, "sektion": "c"}, "Did you mean it by 'sektion'"),
            ({"age": "30", "section": "c"}, "rows[0].age='30': must be a number"),
            ({"age": [], "section": "c"}, "rows[0].age=[]: must be a number"),
            ({"age": 1e300, "section": "c"}, "every number must be a finite float32"),
            ({"age": 30, "section": 1.5}, "rows[0].section=1.5: must be text"),
            ([30, 1], "rows[0]: must be an object with the fields age, section"),
            ("text", "must be an object"),
        ):
            status, answer = client.ask("/predict", {"rows": [row]})
            assert status == 422 and said in answer["error"], answer


def test_lists_are_those_of_the_commands(folder: Path, ratings: Client) -> None:
    users = ["user 3", "user 0", "user 3"]
    (folder / "users").write_text("\n".join(users[:2]))
    (folder / "items").write_text("film 1\nfilm 2\nfilm 3")
    options = ("--users", "users", "--top", "2", "--json")
    for more, asked in (
        ((), {}),
        (("--include-seen",), {"include_seen": True}),
        (("--items", "items"), {"items": ["film 1", "film 2", "film 3"]}),
    ):
        wanted = map(json.loads, learn(folder, "recommend", "als", *options, *more).splitlines())
        by_user = {record["user"]: record for record in wanted}
        status, answer = ratings.ask("/recommend", {"users": users, "top": 2} | asked)
        assert (status, answer["lists"]) == (200, [by_user[user] for user in users])
    wanted = learn(folder, "similar", "als", "--items", "items", "--json").splitlines()
    status, answer = ratings.ask("/similar", {"items": ["film 1", "film 2", "film 3"]})
    assert (status, answer["lists"]) == (200, [json.loads(line) for line in wanted])
    assert ratings.ask("/similar", {"users": ["user 1"], "top": 1})[0] == 200


def test_new_users_are_rated_as_by_the_command(folder: Path, ratings: Client) -> None:
    (folder / "new.csv").write_text("user,item,rating\nnew,film 1,5\nnew,film 4,1\n")
    (line,) = learn(
        folder, "recommend", "als", "--data", "new.csv", "--top", "3", "--json"
    ).splitlines()
    row = {"film 1": 5, "film 4": 1}
    _, answer = ratings.ask("/recommend", {"rows": [row], "top": 3})
    assert answer["lists"][0]["items"] == json.loads(line)["items"]
    _, answer = ratings.ask("/predict", {"rows": [row]})
    assert answer["predictions"] == of_command(folder, "als", "new.csv")


def test_pairs_are_rated_as_by_the_command(folder: Path, ratings: Client) -> None:
    pairs = [["user 1", "film 2"], ["user 0", "film 8"], ["who", "film 1"]]
    (folder / "pairs.csv").write_text("user,item\n" + "\n".join(map(",".join, pairs)))
    lines = learn(folder, "predict", "als", "--pairs", "pairs.csv", "--out", "-").splitlines()
    status, answer = ratings.ask("/predict", {"pairs": pairs})
    assert answer["predictions"] == [json.loads(line)["prediction"] for line in lines]
    assert status == 200 and answer["user_known"] == [True, True, False]


def test_users_need_training_data_or_include_seen(folder: Path) -> None:
    (folder / "ratings.csv").rename(folder / "away.csv")
    try:
        with service(folder / "als") as client:
            status, answer = client.ask("/recommend", {"users": ["user 1"]})
            assert status == 422 and "include_seen: must be true" in answer["error"]
            body = {"users": ["user 1"], "include_seen": True}
            assert client.ask("/recommend", body)[0] == 200
    finally:
        (folder / "away.csv").rename(folder / "ratings.csv")


def test_the_index_has_examples_that_work(topics: Client, ratings: Client) -> None:
    for client in (topics, ratings):
        status, index = client.ask("/")
        assert status == 200
        for endpoint in index["endpoints"]:
            status, answer = client.ask(endpoint["path"], endpoint.get("example"))
            assert status == 200, answer
            if endpoint["method"] == "POST":
                assert endpoint["example"].keys() <= endpoint["schema"]["properties"].keys()


def test_health_metrics_and_log(topics: Client) -> None:
    assert topics.ask("/health")[1] == {
        "status": "ok",
        "model": "lda",
        "run": "lda",
        "blocklearn": topics.ask("/")[1]["blocklearn"],
    }
    topics.ask("/predict", {"rows": ["socket"]})
    before = topics.ask("/metrics")[1]
    topics.ask("/predict", {"rows": ["socket", "port"]})
    topics.ask("/nowhere\x1b[2J".replace("\x1b", "%1B"))

    def value(text: str, name: str) -> float:
        return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name)))

    after = topics.ask("/metrics")[1]
    for name, more in (("rows_total{}", 2), ('requests_total{path="/predict",status="200"}', 1)):
        name = f"blocklearn_serve_{name}"
        assert value(after, name) == value(before, name) + more
    assert "nowhere" not in after and 'path="other",status="404"' in after
    assert any("POST /predict 200 " in line for line in topics.said)


# ------------------------------------------------------------- hostile requests


@pytest.mark.parametrize(
    "body, status, said",
    [
        (b"", 400, "must be JSON"),
        (b"\xff\xfe", 400, "must be JSON"),
        (b"{'rows': 1}", 400, "must be JSON"),
        (b"[" * 9000, 400, "recursion limit"),
        (b'{"rows": %s}' % (b"[" * 4000 + b"]" * 4000), 400, "recursion limit"),
        (b'{"rows": [%s]}' % (b"9" * 9000), 400, "out of range"),
        (b'{"rows": ["\\ud800"]}', 400, "must be JSON"),
        (b"null", 422, "must be an object"),
        (b"{}", 422, "rows: is missing"),
        (b'{"rows": "ship", "pairs": []}', 422, "rows: must be a list; pairs: is unknown"),
        (b'{"rows": "socket"}', 422, "rows"),
        (b'{"rows": []}', 422, "at least 1 item"),
        (b'{"rows": ["a"], "colour": 1}', 422, "colour"),
        (b'{"rows": ["a"], "skip_unknown": 1}', 422, "skip_unknown"),
        (b'{"rows": [1]}', 422, "rows[0]: must be"),
        (b'{"rows": [{"socket": NaN}]}', 422, "rows[0].socket: must be a finite"),
        (b'{"rows": [{"socket": 1e999}]}', 422, "rows[0].socket: must be a finite"),
        (b'{"rows": [{"socket": -1}]}', 422, "must not be negative"),
        (b'{"rows": [{"socket": "1"}]}', 422, "rows[0].socket: must be a number"),
        (b'{"rows": [{"socket": true}]}', 422, "rows[0].socket: must be a number"),
        (b'{"rows": [{"zebra": 1}]}', 422, "'zebra'"),
        (b'{"rows": ["a", [1, 2]]}', 422, "rows[1]: 2 numbers"),
        (b'{"rows": [%s]}' % b",".join([b'"a"'] * 41), 413, "at most 40"),
        (b'{"rows": ["%s"]}' % (b"a" * 10_000), 413, "more than 10,000 bytes"),
    ],
)
def test_hostile_bodies_get_a_clear_refusal(
    topics: Client, body: bytes, status: int, said: str
) -> None:
    found, answer = topics.ask("/predict", body)
    assert found == status and said in answer["error"]
    assert len(answer["error"]) < 400 and "Traceback" not in answer["error"]


def test_ten_megabytes_are_refused_before_they_are_read(topics: Client) -> None:
    assert topics.ask("/predict", bytes(10_000_000))[0] == 413
    with topics.open() as connection:  # in chunks, without a length
        head = b"POST /predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"2800\r\n" + bytes(0x2800) + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_other_paths_and_methods_are_refused(topics: Client) -> None:
    status, answer = topics.ask("/recommend", {"users": ["a"]})
    assert status == 404 and "there are /, /health, /metrics, /predict, /topics" in answer["error"]
    assert topics.ask("/predict", method="GET")[0] == 405
    assert topics.ask("/topics?top=0")[0] == topics.ask("/topics?relevance=nan")[0] == 422
    with topics.open() as connection:
        connection.sendall(b"\x00\x01 no HTTP\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_answers_are_not_larger_than_a_limit(
    topics: Client, ratings: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"items": ["film 1"] * 20, "top": 9_999}
    status, answer = ratings.ask("/similar", body)
    assert status == 413 and "100,000 entries in all" in answer["error"]
    assert ratings.ask("/similar", body | {"top": 5_000})[0] == 200  # all that there are
    monkeypatch.setattr("blocklearn.learner.serving.served.MOST_NUMBERS", 5)
    status, answer = topics.ask("/predict", {"rows": ["socket"] * 3})
    assert status == 413 and "an answer of 6 numbers: must be at most 5" in answer["error"]


def test_an_unknown_user_is_named(ratings: Client) -> None:
    status, answer = ratings.ask("/recommend", {"users": ["user 1", "eve"]})
    assert status == 422 and "1 of 2 users are unknown to the model: 'eve'" in answer["error"]
    body = {"users": ["user 1", "eve"], "skip_unknown": True}
    assert len(ratings.ask("/recommend", body)[1]["lists"]) == 1
    assert ratings.ask("/recommend", body | {"users": ["eve"]})[1] == {"lists": []}
    for body in ({}, {"users": ["a"], "rows": [{}]}, {"users": ["user 1"], "top": 0}):
        assert ratings.ask("/recommend", body)[0] == 422


def test_slow_clients_are_cut_off(folder: Path) -> None:
    with service(folder / "lda", seconds=0.2) as client:
        for beginning in b"", b"POST /predict HTTP/1.1\r\n":
            with client.open() as slow, suppress(ConnectionError):  # cut off before it asks for it
                slow.sendall(beginning)
                assert slow.recv(100) == b""
    with service(folder / "lda") as client, client.open() as slow:
        client.app.limits = replace(client.app.limits, seconds=0.2)  # of what comes after the head
        slow.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_requests_beyond_the_limit_are_told_to_come_later(folder: Path) -> None:
    with service(folder / "lda", max_requests=1) as client:
        with client.open() as first:
            first.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 19\r\n\r\n{")
            while not client.app.counters.waiting:
                time.sleep(0.001)
            status, answer = client.ask("/predict", {"rows": ["socket"]})
            assert status == 503 and "1 requests are waiting already" in answer["error"]
            assert client.ask("/health")[0] == client.ask("/metrics")[0] == 200
            first.sendall(b'"rows":["socket"]}')
            assert first.recv(100).startswith(b"HTTP/1.1 200")


def test_an_answer_that_takes_too_long_is_given_up(folder: Path) -> None:
    request = (
        b"POST /predict HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 19\r\n\r\n"
        b'{"rows":["socket"]}'
    )
    with service(folder / "lda") as client, client.open() as connection:
        client.app.limits = replace(client.app.limits, seconds=0.2)  # the body comes with the head
        hold = threading.Event()
        busy = client.app.worker.submit(hold.wait, 60)
        try:
            connection.sendall(request)
            answer = connection.makefile("rb").read()
        finally:
            hold.set()
        assert busy.result() and answer.startswith(b"HTTP/1.1 503")
        assert b"No answer within 0.2" in answer


def test_a_fault_of_the_service_is_logged_not_told(
    topics: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics.app.served, "learner", None)
    status, answer = topics.ask("/predict", {"rows": ["socket"]})
    assert (status, answer) == (500, {"error": "An error of the service; its log has the details."})
    assert "Traceback" in topics.said[-2] + topics.said[-1]


# ------------------------------------------------------------- many requests


def test_memory_does_not_grow_with_requests(topics: Client) -> None:
    def ask(number: int) -> None:
        assert topics.ask("/predict", {"rows": ["socket port"] * (1 + number % 7)})[0] == 200

    for number in range(7):
        ask(number)
    team = topics.app.served.learner.team
    assert team is not None
    before = team.first.cache.plan()
    for number in range(30):
        ask(number)
    assert topics.app.served.learner.team is team and team.first.cache.plan() == before


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_concurrent_requests_are_all_answered(folder: Path, count: int) -> None:
    code = "import asyncio, json, sys" + CONCURRENT
    with service(folder / "lda", seconds=600) as client:
        _, alone = client.ask("/predict", {"rows": ["socket matrix port"]})
        sent = [sys.executable, "-c", code, str(client.port), str(count)]
        out = subprocess.run(sent, capture_output=True, text=True, check=True).stdout
        answers = json.loads(out)
    assert len(answers) == count
    assert all(answer == alone for answer in answers)


CONCURRENT = """
import resource
port, count = map(int, sys.argv[1:])
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 64)), hard))
body = b'{"rows": ["socket matrix port"]}'
head = b"POST /predict HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n"
head += b"Content-Length: %d\\r\\n\\r\\n" % len(body)
async def main():
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, out in opened:
        out.write(head + body)
    answers = [(await into.read()).split(b"\\r\\n\\r\\n") for into, _ in opened]
    assert all(first.startswith(b"HTTP/1.1 200") for first, _ in answers), answers
    print(json.dumps([json.loads(last) for _, last in answers]))
asyncio.run(main())
"""


# ------------------------------------------------------------- the command


@pytest.mark.slow
def test_the_command_stops_at_a_signal_with_code_0(folder: Path) -> None:
    with started("serve", str(folder / "glm"), "--port", "0", "--log") as process:
        assert process.stdout is not None and process.stderr is not None
        url = process.stdout.readline().split()[0]
        client = Client(int(url.rstrip("/").split(":")[-1]), None, [])  # type: ignore[arg-type]
        assert client.ask("/health")[1]["status"] == "ok"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0
        assert "GET /health 200" in process.stderr.read()


def test_wrong_places_end_with_documented_codes(
    command: Learn, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.service import listening

    assert command("serve", "nowhere", "--port", "0")[0] == 66
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        code, _, said = command("serve", str(folder / "glm"), "--port", str(port))
        assert code == 74 and f"127.0.0.1:{port}: Address already in use" in said
    assert command("serve", str(folder / "glm"), "--max-rows", "0")[0] == 2
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, said = command("serve", "nowhere")
    assert code == 69 and serve_commands.MISSING in said


def test_other_hosts_than_loopback_are_warned_of() -> None:
    from blocklearn.learner.serving.serve import is_loopback

    local = ("127.0.0.1", "127.8.8.8", "::1", "localhost")
    assert all(map(is_loopback, local)) and not any(map(is_loopback, ("0.0.0.0", "::", "box")))
