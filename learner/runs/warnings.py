"""What a run warns of before it trains."""

import logging

from ..checkpoints.checkpoint import Checkpoint
from ..configuration.config import RunConfig
from ..configuration.references import left_out

log = logging.getLogger(__name__)


def warn_of_secrets(config: RunConfig) -> None:
    """Warn of secrets that are written out; files of the run omit them."""
    for key, url in left_out(config.written()):
        log.warning(
            "%s: this URL contains a secret; files of the run have *** in its place. Write "
            "${NAME} there, and set the environment variable NAME",
            f"{key}={url}",
        )


def warn_of_other_passes(config: RunConfig, last: Checkpoint) -> None:
    """Warn if a finished pass depended on a number of passes that has changed."""
    told, passes = int(last.config["learner"]["passes"]), config.learner.passes
    parting = config.model.parts_at(told, passes)
    if parting is not None and last.position > (parting, 0):
        log.warning(
            "%s: learner.passes was %d and is now %d. Pass %d, which is done, was planned with "
            "passes=%d, so the model will differ from that of a new run with passes=%d. "
            "--overwrite starts a new run",
            config.out, told, passes, parting + 1, told, passes,
        )  # fmt: skip
