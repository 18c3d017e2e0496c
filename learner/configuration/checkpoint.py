"""The section of a configuration on checkpoints."""

from pydantic import Field, PositiveFloat, PositiveInt

from .section import Section


class CheckpointConfig(Section):
    """When to save checkpoints, from which runs resume, besides the end of training."""

    every_passes: PositiveInt | None = Field(
        1, description="passes between checkpoints; null: passes do not count"
    )
    every_blocks: PositiveInt | None = Field(
        None, description="blocks between checkpoints, counted over all passes"
    )
    every_minutes: PositiveFloat | None = Field(None, description="minutes between checkpoints")
    keep: PositiveInt = Field(
        2, description="checkpoints to keep, in addition to that of the best evaluation.metric"
    )
    store: str | None = Field(
        None,
        description="URL of a folder in a store, such as s3://bucket/runs/lda, for copies of all "
        "checkpoints. A run whose own folder is lost resumes from them",
    )
