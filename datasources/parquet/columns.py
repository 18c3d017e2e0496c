"""Choose columns of a table as features, and place them in blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..arrays.block_shape import MAX_COLUMNS
from ..errors import DataError
from .where import Condition, Where


@dataclass(frozen=True)
class Dense:
    """A column with a number, or a list of `width` numbers, in every row.

    width: numbers in each list; None if the column's type says it (a number, a list of fixed size).
    """

    column: str
    width: int | None = None

    @property
    def columns(self) -> tuple[str]:
        """The table's columns that the feature reads."""
        return (self.column,)


@dataclass(frozen=True)
class Sparse:
    """A feature that stores the non-zeros of each row.

    indices: the column with the places of non-zeros: a list of integers per row, or one integer
        (a category).
    values: the column with their values; None if all are 1.
    size: number of features, so that 0 <= index < size; None: the largest index found plus 1.
    """

    indices: str
    values: str | None = None
    size: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns that the feature reads."""
        return (self.indices,) if self.values is None else (self.indices, self.values)


Feature = Dense | Sparse


@dataclass(frozen=True)
class Columns:
    """The columns that are read from a table, by role.

    features: dense ones first, then sparse ones, each in the order given. They become the columns
        of a block in this order.
    targets: columns to predict.
    weights, ids: the columns with weights and names of rows, None if there are none.
    texts: columns of text. They are not part of blocks, so the `repr`, which fingerprints of
        blocks use, omits them.
    where: conditions that rows must satisfy, also omitted.
    """

    features: tuple[Feature, ...]
    targets: tuple[Dense, ...] = ()
    weights: str | None = None
    ids: str | None = None
    texts: tuple[str, ...] = field(default=(), repr=False)
    where: tuple[Condition, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls,
        features: Feature | str | Sequence[Feature | str],
        targets: Sequence[Dense | str],
        weights: str | None,
        ids: str | None,
        where: Where = (),
    ) -> "Columns":
        """Make columns from a user's settings; a bare name is a dense column.

        Raises `DataError` if there are no features, or if a column is named twice.
        """
        given = [features] if isinstance(features, (str, Dense, Sparse)) else list(features)
        parts = [Dense(part) if isinstance(part, str) else part for part in given]
        dense = [part for part in parts if isinstance(part, Dense)]
        sparse = [part for part in parts if isinstance(part, Sparse)]
        labels = tuple(Dense(part) if isinstance(part, str) else part for part in targets)
        found = cls((*dense, *sparse), labels, weights, ids, where=tuple(map(Condition.of, where)))
        if not parts:
            raise DataError("ParquetSource: no features; name at least one column.")
        numbers = list(found.numbers)
        for name in numbers:
            if numbers.count(name) > 1:
                raise DataError(f"ParquetSource: column {name!r} is named twice; name it once.")
        return found

    @property
    def dense(self) -> tuple[Dense, ...]:
        """The dense features."""
        return tuple(part for part in self.features if isinstance(part, Dense))

    @property
    def sparse(self) -> tuple[Sparse, ...]:
        """The sparse features; if there are any, blocks are sparse."""
        return tuple(part for part in self.features if isinstance(part, Sparse))

    @property
    def numbers(self) -> Iterator[str]:
        """The names of the columns that make up a block."""
        for part in (*self.features, *self.targets):
            yield from part.columns
        if self.weights is not None:
            yield self.weights

    @property
    def names(self) -> list[str]:
        """The names of all columns that are read."""
        return [*self.numbers, *self.texts, *([] if self.ids is None else [self.ids]), *self.tested]

    @property
    def tested(self) -> list[str]:
        """The names of the columns that conditions compare, each once."""
        return list(dict.fromkeys(condition.column for condition in self.where))

    def sized(self, widths: dict[str, int], sizes: dict[str, int]) -> "Columns":
        """Fill in missing widths and sizes, given by column, and return the result."""
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
        """The first block column of each feature, followed by the number of columns."""
        found = [0]
        for part in self.features:
            found.append(found[-1] + ((part.width if isinstance(part, Dense) else part.size) or 0))
        if not 1 <= found[-1] <= MAX_COLUMNS:
            raise DataError(f"ParquetSource: {found[-1]} columns: must be 1 to {MAX_COLUMNS}.")
        return found


def names_of(parts: Sequence[Dense]) -> list[str]:
    """Return a name for each number of a row: `column`, or `column[i]` in a list.

    >>> names_of([Dense("a", 1), Dense("b", 2)])
    ['a', 'b[0]', 'b[1]']
    """
    return [
        part.column if part.width == 1 else f"{part.column}[{i}]"
        for part in parts
        for i in range(part.width or 0)
    ]
