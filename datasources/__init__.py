"""Sources of blocks in memory and on disk, and the reader that reads ahead."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .arrays.block_shape import BlockShape as BlockShape
    from .arrays.feature_hashing import hash_features as hash_features
    from .arrays.feature_hashing import interactions as interactions
    from .arrays.hashed_names import HashedWords as HashedWords
    from .block import HostBlock as HostBlock
    from .blocks import BlocksData as BlocksData
    from .blocks import BlockSource as BlockSource
    from .blocks import BlockWriter as BlockWriter
    from .blocks import write_blocks as write_blocks
    from .config import EvalData as EvalData
    from .config import Holdout as Holdout
    from .config import TrainData as TrainData
    from .data_kind import DataKind as DataKind
    from .data_kind import MemoryKind as MemoryKind
    from .errors import DataError as DataError
    from .examples.docstrings import python_docs as python_docs
    from .formats.sentences_kind import SentencesData as SentencesData
    from .formats.text_kind import FileData as FileData
    from .formats.text_kind import PythonDocs as PythonDocs
    from .formats.word_counts import read_counts as read_counts
    from .holdout.entries import EntriesSource as EntriesSource
    from .holdout.entries import blocks_of_entries as blocks_of_entries
    from .holdout.entries import entries_of as entries_of
    from .holdout.entry_filter import EntryFilter as EntryFilter
    from .holdout.entry_filter import entry_filter as entry_filter
    from .holdout.row_filter import RowFilter as RowFilter
    from .holdout.samples import Reading as Reading
    from .holdout.samples import Samples as Samples
    from .holdout.samples import Sizing as Sizing
    from .holdout.split import split_by_contents as split_by_contents
    from .holdout.split import split_rows as split_rows
    from .hugectr import HugeCTRNorm as HugeCTRNorm
    from .hugectr import HugeCTRRaw as HugeCTRRaw
    from .hugectr import HugeCTRSource as HugeCTRSource
    from .ids import Finder as Finder
    from .ids import Ids as Ids
    from .memory.iterable import IterableSource as IterableSource
    from .memory.matrix import MatrixSource as MatrixSource
    from .memory.order import Shuffle as Shuffle
    from .parquet import Dense as Dense
    from .parquet import ParquetSource as ParquetSource
    from .parquet import Sparse as Sparse
    from .ratings import Ratings as Ratings
    from .ratings import read_ratings as read_ratings
    from .ratings import split_ratings as split_ratings
    from .ratings.kind import RatingsData as RatingsData
    from .ratings.kind import RatingsKind as RatingsKind
    from .ratings.links_kind import LinksData as LinksData
    from .reader import Reader as Reader
    from .source import DataSource as DataSource
    from .source import KeepingSource as KeepingSource
    from .source import LabelledSource as LabelledSource
    from .source import NamedRowsSource as NamedRowsSource
    from .source import ParallelSource as ParallelSource
    from .source import QuickSource as QuickSource
    from .source import TwoSidedSource as TwoSidedSource
    from .source import notes_of as notes_of
    from .source import row_names as row_names
    from .source import target_names as target_names
    from .tables.kind import TableData as TableData
    from .text.corpus import Corpus as Corpus
    from .text.corpus import count_words as count_words
    from .text.sentences import Sentences as Sentences
    from .text.sentences import all_words as all_words
    from .text.sentences import read_sentences as read_sentences
    from .text.words import words as words
    from .weighting.names import Weighting as Weighting
    from .weighting.weighted import WeightedSource as WeightedSource
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
