"""Where blocks come from: matrices in memory, a reader that runs ahead, word counts of text."""

from .block import BlockShape as BlockShape
from .block import HostBlock as HostBlock
from .config import EvalData as EvalData
from .config import FileData as FileData
from .config import Holdout as Holdout
from .config import PythonDocs as PythonDocs
from .config import TrainData as TrainData
from .corpus import Corpus as Corpus
from .corpus import count_words as count_words
from .errors import DataError as DataError
from .features import HashedWords as HashedWords
from .features import hash_features as hash_features
from .features import interactions as interactions
from .files import read_counts as read_counts
from .matrix import MatrixSource as MatrixSource
from .order import Shuffle as Shuffle
from .python_docs import python_docs as python_docs
from .reader import Reader as Reader
from .source import DataSource as DataSource
from .source import LabelledSource as LabelledSource
from .source import target_names as target_names
from .split import split_rows as split_rows
from .text import words as words
