"""Rankings of items, learned by a sampled softmax."""

from .model import Ranking as Ranking
