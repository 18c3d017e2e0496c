"""The ASGI application: limits, JSON in and out, errors as JSON."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from blocklearn import __version__
from blocklearn.datasources import DataError
from blocklearn.matcache import ShapeError

from ..exit_codes import message
from .counters import Counters
from .endpoints import Endpoint, described, endpoints_of
from .limits import Limits
from .questions import LONGEST, RequestError, read
from .served import Served

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
ALWAYS = ("/", "/health", "/metrics")  # answered however many requests wait for the model
COUNTED = ("rows", "pairs", "users", "items")


class App:
    """A service as an ASGI application.

    The model works in one thread, on one request at a time; others wait for it.

    log: prints faults of the service and, with `lines`, a line for each request.
    """

    def __init__(
        self, served: Served, limits: Limits, log: Callable[[str], None], *, lines: bool = False
    ) -> None:
        """Prepare the endpoints that the model has. Nothing is computed yet."""
        self.served, self.limits, self.log, self.lines = served, limits, log, lines
        self.counters = Counters(served.kind)
        self.endpoints = endpoints_of(served)
        self.worker = ThreadPoolExecutor(1, "blocklearn-serve")
        routes = [Route(e.path, partial(self._ask, e), methods=["POST"]) for e in self.endpoints]
        routes += [
            Route("/", self._index, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
        ]
        if served.has_topics:
            routes.append(Route("/topics", self._topics, methods=["GET"]))
        self.paths = {route.path for route in routes}
        self._inner = Starlette(
            routes=routes,
            exception_handlers={HTTPException: self._refused, RequestError: self._refused},
        )

    def warm_up(self) -> None:
        """Answer the example of each endpoint, which compiles what requests need.

        Raises what an endpoint raises.
        """
        for endpoint in self.endpoints:
            body = json.dumps(endpoint.example).encode()
            question = read(endpoint.question, body, self.limits.max_rows)
            self.worker.submit(endpoint.answer, question).result()

    def close(self) -> None:
        """Wait until the model is done, and free its memory."""
        self.worker.shutdown(cancel_futures=True)
        self.served.learner.close()

    # ------------------------------------------------------------- every request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, unless too many wait; count it and log it."""
        begun, status, counted = time.monotonic(), 0, scope["path"] not in ALWAYS

        async def sent(event: MutableMapping[str, Any]) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
            await send(event)

        self.counters.waiting += counted
        try:
            if counted and self.counters.waiting > self.limits.max_requests:
                busy = f"{self.limits.max_requests:,} requests are waiting already."
                await failure(503, busy)(scope, receive, sent)
            else:
                await self._inner(scope, receive, sent)
        finally:
            self.counters.waiting -= counted
            self._note(scope, status, time.monotonic() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"]
        self.counters.count(path if path in self.paths else "other", status, seconds)
        if self.lines:
            who = (scope.get("client") or ("-",))[0]
            method = scope["method"]
            self.log(f"{who} {method[:20]} {path[:200]} {status} {1e3 * seconds:.1f} ms")

    async def _refused(self, request: Request, error: Exception) -> Response:
        """Answer an error that names a status."""
        if isinstance(error, RequestError):
            return failure(error.status, str(error))
        assert isinstance(error, HTTPException)
        text = error.detail
        if error.status_code == 404:
            text = f"{request.url.path[:80]}: unknown; there are {', '.join(sorted(self.paths))}."
        elif error.status_code == 405:
            text = f"{request.method[:20]}: not a method of {request.url.path[:80]}."
        return failure(error.status_code, text, dict(error.headers or {}))

    # ------------------------------------------------------------- endpoints

    async def _ask(self, endpoint: Endpoint, request: Request) -> Response:
        """Read the question, let the model answer, and return JSON."""
        body = await self._body(request)
        return await self._answered(partial(self._work, endpoint, body))

    def _work(self, endpoint: Endpoint, body: bytes) -> bytes:
        question = read(endpoint.question, body, self.limits.max_rows)
        answer = encoded(endpoint.answer(question))
        given = (getattr(question, name, None) for name in COUNTED)
        self.counters.rows += len(next(rows for rows in given if rows is not None))
        return answer

    async def _answered(self, work: Callable[[], bytes]) -> Response:
        """Do `work` in the thread of the model, and return JSON."""
        seconds = self.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                found = await asyncio.get_running_loop().run_in_executor(self.worker, work)
        except TimeoutError:
            late = f"No answer within {seconds:g} seconds. Ask for less, or later."
            raise RequestError(503, late) from None
        except (DataError, ShapeError) as error:
            raise RequestError(422, message(error)) from None
        except RequestError:
            raise
        except Exception as error:
            self.log("".join(traceback.format_exception(error)))
            raise RequestError(500, "An error of the service; its log has the details.") from None
        return Response(found, media_type="application/json")

    async def _body(self, request: Request) -> bytes:
        """Return the body. Raises `RequestError` if it is too large or arrives too slowly."""
        most = self.limits.max_body
        too_large = RequestError(
            413, f"The body has more than {most:,} bytes, the most that is taken (--max-body)."
        )
        told = request.headers.get("content-length", "")
        if told.isdigit() and int(told[:20]) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for piece in request.stream():
                    body += piece
                    if len(body) > most:
                        raise too_large
        except TimeoutError:
            text = f"The body did not arrive within {self.limits.seconds:g} seconds."
            raise RequestError(408, text) from None
        except ClientDisconnect:
            raise RequestError(400, "The body did not arrive.") from None
        return bytes(body)

    async def _topics(self, request: Request) -> Response:
        top = number(request, "top", 10, whole=True, most=LONGEST)
        relevance = number(request, "relevance", 1.0, whole=False, most=1)
        return await self._answered(lambda: encoded(self.served.topics(int(top), relevance)))

    async def _index(self, request: Request) -> Response:
        about = self._facts() | {"limits": vars(self.limits)}
        return Response(encoded(described(self.served, self.endpoints, about)),
                        media_type="application/json")  # fmt: skip

    async def _health(self, request: Request) -> Response:
        return Response(encoded({"status": "ok"} | self._facts()), media_type="application/json")

    async def _metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.counters.text(), media_type="text/plain; version=0.0.4")

    def _facts(self) -> dict[str, Any]:
        return {"model": self.served.kind, "run": self.served.run.name, "blocklearn": __version__}


def number(request: Request, name: str, default: float, *, whole: bool, most: float) -> float:
    """Return a number of the query of a URL. Raises `RequestError` if it is wrong."""
    text = request.query_params.get(name)
    if text is None:
        return default
    least = 1 if whole else 0
    try:
        found = int(text[:20]) if whole else float(text[:40])
    except ValueError:
        found = float("nan")
    if not least <= found <= most:
        kind = "a whole number" if whole else "a number"
        raise RequestError(422, f"{name}={text[:40]!r}: must be {kind} from {least} to {most:,}.")
    return found


def encoded(answer: Any) -> bytes:
    """Return JSON."""
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def failure(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error as JSON."""
    body = encoded({"error": text})
    headers = dict(headers or {}) | ({"retry-after": "1"} if status == 503 else {})
    return Response(body, status, headers=headers, media_type="application/json")
