"""The base class of the sections of a configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration, without unknown keys, and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)
