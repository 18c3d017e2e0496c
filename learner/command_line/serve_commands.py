"""`learn serve`: a model as a service on HTTP.

Nothing heavy is imported before it runs.
"""

from typing import Annotated, Any

import typer

from ..serving.limits import Limits
from ..terminal import say, show_lines
from .options import DeviceOption, ModelClassOption, RunArgument, model_class, with_options

MISSING = "learn serve needs starlette and uvicorn: pip install 'blocklearn[serve]'"


@with_options(Limits, after="port")
def serve(
    run: RunArgument,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="Address to listen at; by default only this machine reaches it."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")
    ] = 8000,
    log: Annotated[bool, typer.Option("--log", help="Print a line for each request.")] = False,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads of the model [all].")
    ] = None,
    device: DeviceOption = "cpu",
    model: ModelClassOption = None,
    **limits: Any,
) -> None:
    """Answer requests in JSON over HTTP.

    Endpoints: health, metrics, and those of predict, topics, recommend and similar that the model
    supports. `curl http://127.0.0.1:8000/` lists them, with examples.

    After SIGTERM or Ctrl-C it answers the requests that it has, and ends with exit code 0.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(MISSING) from error
    from ..serving.serve import serve as run_service

    code = run_service(
        run,
        host,
        port,
        Limits(**limits),
        threads=threads,
        device=device,
        lines=log,
        say=say,
        ready=lambda url: show_lines([f"{url} serves {run}"], flush=True),
        model=model_class(model),
    )
    raise typer.Exit(int(code))
