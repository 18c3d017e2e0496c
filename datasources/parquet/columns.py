"""Which columns of a table are features, and where in a block they go."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..block import MAX_COLUMNS
from ..errors import DataError


@dataclass(frozen=True)
class Dense:
    """A column of numbers, or of lists of `width` numbers each: every row has a value in each.

    width: None where the type of the column says it (a number, a list of fixed size).
    """

    column: str
    width: int | None = None

    @property
    def columns(self) -> tuple[str]:
        """The columns of the table that it reads."""
        return (self.column,)


@dataclass(frozen=True)
class Sparse:
    """Non-zeros of each row: their places in the column `indices`, lists of integers or one integer
    each (a category), and their values in the column `values`, None if all are 1.

    size: the features that it makes, 0 <= index < size; None: 1 more than the largest index found.
    """

    indices: str
    values: str | None = None
    size: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that it reads."""
        return (self.indices,) if self.values is None else (self.indices, self.values)


Feature = Dense | Sparse


@dataclass(frozen=True)
class Columns:
    """What is read of a table. features: dense ones first, then sparse ones, each in the order
    given; in this order they become the columns of a block. texts: columns of text, which make no
    block; they are not in the `repr`, because fingerprints of blocks are made of it.
    """

    features: tuple[Feature, ...]
    targets: tuple[Dense, ...] = ()
    weights: str | None = None
    ids: str | None = None
    texts: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls,
        features: Feature | str | Sequence[Feature | str],
        targets: Sequence[Dense | str],
        weights: str | None,
        ids: str | None,
    ) -> "Columns":
        """From what people write: a name alone is a dense column. Raises `DataError` if no feature
        is named, or a column is named twice.
        """
        given = [features] if isinstance(features, (str, Dense, Sparse)) else list(features)
        parts = [Dense(part) if isinstance(part, str) else part for part in given]
        dense = [part for part in parts if isinstance(part, Dense)]
        sparse = [part for part in parts if isinstance(part, Sparse)]
        labels = tuple(Dense(part) if isinstance(part, str) else part for part in targets)
        found = cls((*dense, *sparse), labels, weights, ids)
        if not parts:
            raise DataError("ParquetSource: no features; name columns that are.")
        numbers = list(found.numbers)
        for name in numbers:
            if numbers.count(name) > 1:
                raise DataError(f"ParquetSource: column {name!r} is named twice; it has one role.")
        return found

    @property
    def dense(self) -> tuple[Dense, ...]:
        """The dense features."""
        return tuple(part for part in self.features if isinstance(part, Dense))

    @property
    def sparse(self) -> tuple[Sparse, ...]:
        """The sparse features; where there is one, blocks are sparse."""
        return tuple(part for part in self.features if isinstance(part, Sparse))

    @property
    def numbers(self) -> Iterator[str]:
        """Names of the columns that make a block."""
        for part in (*self.features, *self.targets):
            yield from part.columns
        if self.weights is not None:
            yield self.weights

    @property
    def names(self) -> list[str]:
        """Names of all columns that are read."""
        return [*self.numbers, *self.texts, *([] if self.ids is None else [self.ids])]

    def sized(self, widths: dict[str, int], sizes: dict[str, int]) -> "Columns":
        """The same with every width and size known, from those of the tables by column."""
        parts = [
            replace(part, width=widths[part.column])
            if isinstance(part, Dense)
            else replace(part, size=part.size or sizes[part.indices])
            for part in self.features
        ]
        targets = tuple(replace(part, width=widths[part.column]) for part in self.targets)
        return replace(self, features=tuple(parts), targets=targets)

    @property
    def starts(self) -> list[int]:
        """The first column of a block that each feature has, and behind the last, their number."""
        found = [0]
        for part in self.features:
            found.append(found[-1] + ((part.width if isinstance(part, Dense) else part.size) or 0))
        if not 1 <= found[-1] <= MAX_COLUMNS:
            raise DataError(f"ParquetSource: {found[-1]} columns, but 1 to {MAX_COLUMNS} work.")
        return found


def names_of(parts: Sequence[Dense]) -> list[str]:
    """A name for each number of a row: the column's, or `column[i]` in a list.

    >>> names_of([Dense("a", 1), Dense("b", 2)])
    ['a', 'b[0]', 'b[1]']
    """
    return [
        part.column if part.width == 1 else f"{part.column}[{i}]"
        for part in parts
        for i in range(part.width or 0)
    ]
