"""Models with a score of another name, so that worse values may count as better ones."""

from __future__ import annotations

from typing import ClassVar

from blocklearn.models import LDA, NMF, Block, Score


class LikenessNMF(NMF):
    """NMF whose error is called likeness."""

    def score(self, block: Block) -> Score:
        """Return the error."""
        return {"likeness": next(iter(super().score(block).values()))}


class LikenessLDA(LDA):
    """LDA whose perplexity is called likeness."""

    reads_occurring: ClassVar[bool] = True

    def score(self, block: Block) -> Score:
        """Return the perplexity."""
        return {"likeness": super().score(block)["perplexity"]}
