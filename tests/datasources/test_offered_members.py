"""Functions ask sources for members that only some have."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from blocklearn.datasources import MatrixSource
from blocklearn.datasources.source import (
    first_rows,
    notes_of,
    readers_of,
    row_names,
    rows_last,
    target_names,
)

MEMBERS: dict[str, Callable[[Any], Any]] = {
    "target_names": target_names,
    "row_names": row_names,
    "readers": readers_of,
    "rows_last": rows_last,
    "notes": notes_of,
    "first_rows": first_rows,
}
INNER = MatrixSource(np.ones((5, 2)), block_rows=2)


class Plain:
    blocks, shape = INNER.blocks, INNER.shape


def test_a_source_without_them_has_the_usual_ones() -> None:
    source: Any = Plain()
    found = [MEMBERS[name](source) for name in list(MEMBERS)[:-1]]
    assert found == [None, None, 1, True, ()]
    assert first_rows(source).tolist() == [0, 2, 4, 5]


@pytest.mark.parametrize("name", list(MEMBERS))
def test_a_mistake_within_a_property_is_no_absent_member(name: str) -> None:
    def mistaken(self: Any) -> Any:
        return self.misspelt

    source = type("Mistaken", (Plain,), {name: property(mistaken)})()
    with pytest.raises(AttributeError, match="misspelt"):
        MEMBERS[name](source)


@pytest.mark.parametrize("name", list(MEMBERS))
def test_a_wrapper_that_passes_names_on_offers_what_its_source_has(name: str) -> None:
    class Wrapper:
        def __getattr__(self, name: str) -> Any:
            return getattr(INNER, name)

    wrapper, inner = MEMBERS[name](Wrapper()), MEMBERS[name](INNER)
    np.testing.assert_array_equal(wrapper, inner)
