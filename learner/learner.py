"""The learner: trains a model on the blocks of a source, pass after pass.

Settings and data are resolved here; `training/` holds the parts: `assembly.py` makes the replicas,
`live_model.py` holds them and their state, `loop.py` trains them, `best.py` keeps the best model.

Longer than 300 lines: most of them are signatures and descriptions of what users call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from blocklearn.answers import answered, no_attribute
from blocklearn.datasources import (
    BlockShape,
    DataSource,
    HostBlock,
    Reader,
    Reading,
    Sizing,
    TwoSidedSource,
    row_names,
    target_names,
)
from blocklearn.datasources.given import Known
from blocklearn.datasources.source import dealt, first_rows
from blocklearn.matcache import IndexedBy, ShapeError, Tables, make_backend
from blocklearn.matcache.containers.backend import Backend
from blocklearn.mixins import MIXINS, Mixin
from blocklearn.models import MODELS, Model
from blocklearn.models.row_share import RowShare
from blocklearn.optimizers import OPTIMIZERS, Optimizer

from .checkpoints.hook import check_folders, checkpoints_of
from .checkpoints.parts import CHECK, WRITE, PartWriter, check_parts
from .configuration.choices import evaluation_of, listed, made
from .engines.alike import check_alike, check_share
from .engines.crew import Crew, bounds
from .engines.exchange import Exchange
from .engines.open import EngineName, check_devices, crew_of
from .exit_codes import exit_code
from .files.row_folder import RowFolder
from .files.table_files import TableFiles
from .hooks import Hook as Hook
from .hooks import Progress as Progress
from .showing.facts import learner_html, learner_text
from .showing.history import History
from .showing.live import Shown, shown
from .training.assembly import Assembly, Facts, Parts
from .training.best import BestModel
from .training.block_input import Use
from .training.checks import check_fields, check_hooks, check_settings, check_whole
from .training.chosen_tables import choose_tables
from .training.data import check_labelled, open_parts, open_source, share_of
from .training.devices import IndexSetting, one_each
from .training.evaluation import Evaluation, Evaluator, check_metric
from .training.further import further, other_names, rows_before
from .training.gpu_time import CARDS, Card, Update, pass_of
from .training.index_choice import PassTimes, changes, pass_times
from .training.leading import Leading, stand_by
from .training.live_model import LiveModel
from .training.loop import Training
from .training.plan import Plan as Plan
from .training.plan import feeds_of, make_plan
from .training.reading import reader_of
from .training.replica import Replica
from .training.scoring import own_blocks, score_blocks
from .training.state import State as State
from .training.state import check_rows
from .training.team import Team
from .training.topics import topic_words
from .training.trial import Trial as Trial
from .training.trial import try_blocks


class Learner:
    """Trains `model` on the rows of `train`, and scores it on those of `eval`.

    - model: or its name, such as "lda", or {"kind": "lda", "topics": 20}; names of own classes are
      such as "kmeans.py:KMeans", relative to the working directory. So for `optimizer` and
      `mixins`.
    - train, eval: X [rows x columns], rows being samples; a tuple (X, Y) or (X, Y, weights); or a
      DataSource, such as `MatrixSource(X, targets=Y, target_names=names)`. X is a NumPy array, a
      SciPy sparse matrix, a data frame or Arrow table of numbers, or documents: a list of texts, of
      lists of words, or of gensim's pairs (word, count). Y is [rows] or [rows x targets], dense or
      sparse, a frame or series, or classes as texts; with weights it may be None. Names of columns,
      words, targets and classes are kept. `evaluate` and `predict` take the same.
    - eval: or a share above 0 and below 1, such as 0.1: so many rows of `train` are held out, or of
      its entries, for models of rows and columns such as ALS.
    - passes: over the training data.
    - block_rows: rows of a block, for data given as matrices. "auto": chosen from the model and
      the size of `train`, see `Model.rows_of_block`; the attribute `block_rows` is the number.
    - seed: of the initial values, and of the order of rows. Rows of matrices are shuffled in every
      pass, except for models that visit rows and columns in turn, such as ALS, and for optimizers
      that step once per pass, such as L-BFGS.
    - threads: None: all that the process may use. The number never changes a bit of the result.
    - optimizer: None: the model's own.
    - mixins: terms added to the objective, and reports.
    - hooks: called on events of training.
    - checkpoint: folder of checkpoints, made when the first is saved: after each pass, and every
      `every_blocks` blocks. `fit` resumes from the newest one there, with the same bits as training
      that never stopped. None: no checkpoints. For other settings, and for errors, see
      `blocklearn.Checkpoints`, which is then the last of the `hooks`.
    - every_blocks: blocks between two checkpoints; None: only after passes.
    - evaluation: when to score `eval`, and which score to watch; or the name of the score.
    - row_folder: keeps the state of rows in files of the folder `row_folder/learner`, mapped into
      memory; None: in memory. One learner at a time holds that folder. The files are removed by
      `close`, when the learner is deleted, and when the process ends; after a kill, by the next
      learner there. Other files are never touched.
    - table_folder: keeps parameters and optimizer state that have a row for each column of the
      data in files of `table_folder/learner-tables`, or of several folders, which may lie on
      several disks and share the pages of each table; None: in memory. The bits are the same. It
      is for sparse data and models whose steps change only the rows that occur in a block, while
      others may rest until the end of a pass; the rest are refused. The folder is held, and left,
      like `row_folder`. `parameter` returns a file by column, read-only.
    - device_tables: bytes of a GPU that such tables may take. Of larger ones, as many rows as fit
      lie there, and the others in the host's memory, which the GPU reads in place: those of columns
      that occur early, and so often, lie on the GPU. None: tables fit on the GPU. The bits are the
      same. One replica; every model.
    - replicas: copies of the model, each with a thread and a share of `threads`, or a device. Block
      i goes to replica i mod replicas. "auto": one for each device of a list, or for each GPU that
      CuPy sees if `device` is "cuda" or "auto"; else one.
    - sync_every: rounds between merges of the replicas, which also follow each pass. Parameters
      become their mean, statistics their sum.
    - sync_weight: in (0, 1], how far a merge within a pass moves a replica towards the mean. The
      result depends on replicas, sync_every and sync_weight, but not on timing.
    - device: "cpu", "cuda" (the first GPU), "cuda:N", or "auto": a GPU if CuPy sees one; or a list,
      one for each replica. Results of a GPU and of the CPU differ in their bits.
    - index: where to make the transposed index of blocks, if the model reads it. "host": in the
      reader's threads; it is then copied with the block. "device": on the GPU, which takes less
      work of the host and less copying. "auto": where a model of the time says a pass is faster;
      that is the GPU, as a rule, if rows are shuffled in each pass. The bits are the same; the CPU
      always uses "host".
    - device_blocks: bytes of a GPU for what stays there: states of rows, all rows of a matrix in
      memory, and blocks that are the same in every pass. "auto": half of what is free beside the
      plan. Such blocks are of sparse matrices that are not shuffled, or of
      `MatrixSource(X, shuffle="blocks")`; other blocks take their rows from the matrix. Same bits.
    - tables: "bfloat16": updates read topics, factors and weights from a 16-bit copy. This halves
      the time of memory-bound kernels on a GPU. Parameters, sums, scores and predictions stay
      float32. On the CPU the numbers are the same, without a gain in speed.
    - engine: how several workers, each a process that makes this same learner, train one model:
      "local": there is one. "mpi": the processes that `mpirun` starts. "auto": "mpi" if `mpirun`
      started this process with others, else "local". Or an `Exchange`. Worker w reads blocks w,
      w + workers, ... of each pass, and has so many replicas: the result has the bits that
      replicas * workers replicas in one process have. All score `eval`; worker 0 calls hooks.
      "ray": this process is worker 0, and Ray starts the others: on this machine, or in the
      cluster of RAY_ADDRESS or of your `ray.init`. They end with `close`.
    - workers: how many there must be; None: those that were started.
    - of_rows: rows of the whole data, if `train` is one part of them; None: `train` is all.
    - verbose: whether `fit` shows its progress where that is seen: in a terminal or a notebook,
      never in a pipe or a file.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.random.default_rng(0).poisson(0.2, (200, 30))
    >>> learner = bl.Learner(bl.models.LDA(topics=3), train=bl.sparse(X), passes=2, threads=1).fit()
    >>> learner.predict(bl.sparse(X[:5])).shape
    (5, 3)
    """

    @answered
    def __init__(
        self,
        model: Model | str | Mapping[str, Any],
        train: Any = None,
        eval: Any = None,
        *,
        passes: int = 1,
        block_rows: int | Literal["auto"] = "auto",
        seed: int = 0,
        threads: int | None = None,
        optimizer: Optimizer | str | Mapping[str, Any] | None = None,
        mixins: Sequence[Mixin | str | Mapping[str, Any]] | Mixin | str = (),
        hooks: Sequence[Hook] = (),
        checkpoint: Path | str | None = None,
        every_blocks: int | None = None,
        evaluation: Evaluation | str | Mapping[str, Any] | None = None,
        row_folder: Path | str | RowFolder | None = None,
        table_folder: Path | str | Sequence[Path | str] | TableFiles | None = None,
        device_tables: int | None = None,
        replicas: int | Literal["auto"] = 1,
        sync_every: int = 8,
        sync_weight: float = 1.0,
        device: str | Sequence[str] = "cpu",
        index: IndexSetting = "auto",
        device_blocks: int | Literal["auto"] = "auto",
        tables: Tables = "float32",
        engine: EngineName | Exchange | Crew = "local",
        workers: int | None = None,
        of_rows: int | None = None,
        verbose: bool = True,
    ) -> None:
        check_settings(
            passes=passes,
            seed=seed,
            threads=threads,
            block_rows=block_rows,
            replicas=replicas,
            sync_every=sync_every,
            sync_weight=sync_weight,
            index=index,
            tables=tables,
            device_blocks=device_blocks,
            device_tables=device_tables,
        )
        model = made("model", MODELS, model)
        check_fields(model)
        self.model = model.untrained()
        self.mixins = [made("mixins", MIXINS, mixin).model_copy() for mixin in listed(mixins)]
        self.passes, self.seed = passes, seed
        size = self.model.rows_of_block if block_rows == "auto" else block_rows
        self.block_rows = Reading(size).rows_of_block()  # until there are data to train on
        self.hooks = [*listed(hooks), *checkpoints_of(checkpoint, every_blocks)]
        check_hooks(self.hooks)
        check_folders(self.hooks)
        self.evaluation = evaluation_of(evaluation)
        if self.evaluation.metric is not None and eval is None:
            raise ValueError("Learner: evaluation.metric is a score of the eval data; pass eval=X.")
        if not isinstance(engine, Crew):
            engine = crew_of(engine, workers, self._task, threads)
        self.crew = engine
        if isinstance(row_folder, Path | str):
            row_folder = RowFolder(Path(row_folder), self.crew.folder_name("learner"))
        self.row_folder = row_folder
        self.threads = self.crew.exchange.threads(threads)
        self.devices = one_each(device, replicas)
        check_devices(self.crew, self.devices)
        self.replicas, self.index, self.tables = len(self.devices), index, tables
        self.of_rows = of_rows
        self.placed_tables = choose_tables(
            table_folder,
            device_tables,
            self.devices,
            workers=self.crew.size,
            read=tables,
            keeps_best=self.evaluation.keep_best and self.evaluation.metric is not None,
        )
        starts = self.crew.exchange.starts  # else the data need not be kept
        self._data = (train, eval) if starts else (None, None)
        self.optimizer, self._chosen = None, optimizer is not None
        if optimizer is not None:
            self.optimizer = made("optimizer", OPTIMIZERS, optimizer).model_copy()
        self._parts = {  # before training
            "model": model.untrained(),
            "optimizer": None if self.optimizer is None else self.optimizer.model_copy(),
            "mixins": [mixin.model_copy() for mixin in self.mixins],
        }
        self._open(train, eval, size)
        if not self._chosen:
            self._take_default_optimizer()
        self.sync_every, self.sync_weight = sync_every, sync_weight
        self.device_blocks = device_blocks
        self.verbose, self.history, self._shown = verbose, History(), Shown(None)
        self._begin()

    def _open(self, train: Any, eval: Any, block_rows: int | Sizing) -> None:
        """Open the data of training and of scores, and take their names."""
        self.train: DataSource | None = None
        self.across: DataSource | None = None  # the training data, transposed
        self.eval: DataSource | None = None
        # data of training and of scores, before the model weighs them or adds entries:
        self.given: tuple[DataSource | None, DataSource | None] = (None, None)
        self.names: Sequence[str] | None = None
        self.target_names: Sequence[str] | None = None
        self.row_names: Sequence[str] | None = None
        self.targets: int | None = None
        self.columns: int | None = None  # of the training data
        visits = self.passes if self.model.steps_by_pass else 1  # blocks are the same in all
        reading = Reading(block_rows, self._shuffles(), self.seed, visits)
        held = replace(reading, shuffle=False, visits=self.evaluation.visits(self.passes))
        source, other, share = None, None, share_of(eval)
        if share is not None:
            if train is None:
                raise ValueError(f"Learner: eval={eval}: must come with data. Pass train=X, too.")
            source, other = open_parts(train, share, reading, held, self.model)
            check_labelled(self.model, other, "eval")
        elif train is not None:
            source = open_source(train, reading, self.model)
        if source is not None:
            check_labelled(self.model, source, "train")
            self._train_on(source)
        if eval is not None and other is None:
            other = self._source(eval, "eval", visits=held.visits)
        if source is not None and other is not None:
            check_rows(self.model, source.shape.total_rows, self.row_names, other, "eval")
        if other is not None:
            self._score_on(other)

    def _train_on(self, source: DataSource) -> None:
        """Take the data of training, and those of its names that are not known yet."""
        two_sided = 1 in self.model.row_states.values()
        self.given = source, self.given[1]
        replicas = self.replicas * self.crew.size
        if self.model.row_states or self.model.most_tokens:  # a row stays with its replica
            source = dealt(source, replicas)
        source = self.model.prepared(source, self.seed, train=True)
        self.train, self.block_rows = source, source.shape.rows  # a source has its own block size
        self.across = None
        if two_sided and isinstance(source, TwoSidedSource):
            self.across = dealt(source.transposed(), replicas)
        self.names = self.names if self.names is not None else source.names
        self.target_names = self.target_names or target_names(source)
        self.row_names, self.targets = row_names(source), source.shape.targets
        self.columns = source.shape.columns

    def _score_on(self, source: DataSource) -> None:
        """Take the data of scores."""
        self.given = self.given[0], source
        self.eval = self._prepared(source)

    def _begin(self) -> None:
        """Begin at the first pass of the data, without any learned numbers."""
        blocks = sum(source.blocks for source in self._training())
        self.progress = Progress(self.passes, blocks)
        self._live = LiveModel(self.progress, self.crew, self.row_folder, self.placed_tables)
        self._best = BestModel(self._live, self.progress, self.evaluation)
        self.part_writer = PartWriter(self._live, self.progress)  # of checkpoints

    # ------------------------------------------------------------- training

    @answered
    def fit(self, train: Any = None, eval: Any = None, *, passes: int | None = None) -> Self:
        """Train for the passes that are left: all, or those after a restored state.

        - train: other data over the same columns, as for the constructor: train on these further.
        - eval: data to score in place of the earlier ones.
        - passes: over the other data; None: 1.

        `bl.load(folder).fit(new)` trains a saved model further. Its optimizer continues at the same
        step, but the sums of optimizers such as AdaGrad begin afresh. A state of rows, such as
        factors of users, is kept if the rows are as many and have no other names; otherwise it
        begins afresh.
        """
        if train is not None:
            self._turn_to(train, eval, 1 if passes is None else passes)
        elif passes is not None or eval is not None:
            raise ValueError(
                f"Learner.fit: passes={passes}: passes and eval must come with new data. Pass "
                "train=X, or give them to the Learner: blocklearn.Learner(model, X, passes=3)."
            )
        with self.crew.guard(exit_code), self.crew.ordered("fit"):
            self._fit()
        return self

    def _fit(self) -> None:
        source = self._training_source()
        team, progress = self._prepare(source.shape), self.progress
        if self.crew.size > 1:
            check_alike(self.crew, self._card())
        check_share(self.crew, source.blocks)
        self._live.trained, progress.passes = True, self.passes
        orders = self._orders()
        lead = Leading(self.crew, progress, orders)
        team.meet()
        with ExitStack() as stack:
            lead(lambda: self._start(stack))
            self._live.share()
            team.meet()
            readers = [
                stack.enter_context(self._reader(source, "train", side))
                for side, source in enumerate(self._training())
            ]
            score = stack.enter_context(self._scoring(team))
            if score is not None:
                orders["score"] = score
            evaluator = Evaluator(self.evaluation, progress, score, self._tell)
            sides = list(zip(self._training(), readers, strict=True))
            Training(team, sides, progress, evaluator, self._tell, self._heard, lead).run()
        lead(self._best.put_back)
        self._live.share(self._best.rows)
        self._best.rows.clear()
        team.gather()
        team.meet()

    def _orders(self) -> dict[str, Callable[[], Any]]:
        """Return what this worker does for the one that leads."""
        live = self._live
        return {
            "fit": self._fit,
            "exact": lambda: stand_by(live.ready()),
            "gather": lambda: live.ready().gather(),
            "keep": self._best.keep_rows,
            "rows": live.give_rows,
            "state": lambda: live.state(copy=False),
            WRITE: self.part_writer.write,
            CHECK: partial(check_parts, self.crew),
        }

    def _task(self) -> Callable[[Exchange], None]:
        """Return what workers do that an engine starts itself: they make this learner, too."""
        train, eval = self._data
        given = {
            **self._parts,
            "train": train,
            "eval": eval,
            "evaluation": self.evaluation,
            "passes": self.passes,
            "block_rows": self.block_rows,
            "seed": self.seed,
            "threads": self.threads,
            "row_folder": None if self.row_folder is None else self.row_folder.path.parent,
            "replicas": self.replicas,
            "sync_every": self.sync_every,
            "sync_weight": self.sync_weight,
            "index": self.index,
            "tables": self.tables,
            "of_rows": self.of_rows,
        }
        return partial(_train_along, given)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Use the model on the worker that leads, while the others `stand_by`.

        After `fit`, every worker has the parameters. But each may have the states of its own rows
        only. And if a hook has stopped the run where replicas were apart (`sync_weight` below 1),
        reading parameters takes all workers.
        """
        with self.crew.leading():
            yield

    def stand_by(self) -> None:
        """Help the worker that leads, until the end of its `alone`."""
        self.crew.follow(self._orders())

    def _start(self, stack: ExitStack) -> None:
        self._best.begin()
        self._shown = stack.enter_context(shown(self.verbose))
        self._tell("start")

    def _card(self) -> dict[str, Any]:
        """Return what must be the same on all workers."""
        assert self.train is not None
        optimizer, held_out = self.optimizer, self.eval
        return {
            "version": version("blocklearn"),
            "model": self.model.model_dump(mode="json"),
            "optimizer": None if optimizer is None else optimizer.model_dump(mode="json"),
            "mixins": [mixin.model_dump(mode="json") for mixin in self.mixins],
            "passes": self.passes,
            "seed": self.seed,
            "replicas": self.replicas,
            "sync_every": self.sync_every,
            "sync_weight": self.sync_weight,
            "tables": self.tables,
            "rows": self.train.shape.total_rows,
            "columns": self.train.shape.columns,
            "targets": self.train.shape.targets,
            "block_rows": self.train.shape.rows,
            "of_rows": self.of_rows,
            "eval rows": None if held_out is None else held_out.shape.total_rows,
        }

    def _turn_to(self, train: Any, eval: Any, passes: int) -> None:
        """Continue at the end of the passes so far, with other data."""
        check_whole("passes", passes)
        if share_of(eval) is not None:
            raise ValueError(
                f"Learner.fit: eval={eval}: must be data: shares are of the first data."
            )
        source = self._source(train, "train", shuffle=self._shuffles())
        state, before = None, 0
        if self._live.has_numbers:
            names = other_names(self.row_names, row_names(source))
            anew = self.optimizer is not None and self.optimizer.keeps_rows
            rows = source.shape.total_rows
            state = further(self.state(), self.model.row_states, rows, names, anew=anew)
            before = rows_before(self.progress)
        self._check_columns(source.shape)
        if self._live.team is not None:
            self._live.drop()
        self.crew.exchange.renew()  # the next workers get the new data
        self._train_on(source)
        if eval is not None:
            self._score_on(self._source(eval, "eval"))
        if self.crew.exchange.starts:
            self._data = train, self.given[1] if eval is None else eval
        if self.of_rows is None and before:
            self.of_rows = before + source.shape.total_rows
        if not self._chosen:
            self._take_default_optimizer()
        self.passes = self.progress.position[0] + passes
        self._begin()
        if state is not None:
            self.restore(state)

    def _training(self) -> list[DataSource]:
        """Return the training data, in each orientation that a pass visits."""
        return [source for source in (self.train, self.across) if source is not None]

    def _reader(self, source: DataSource, use: Use, side: int = 0) -> Reader:
        return reader_of(self._live.ready(), source, use, side)

    @contextmanager
    def _scoring(self, team: Team) -> Iterator[Callable[[], dict[str, float]] | None]:
        """Open a reader of the eval data, and yield a function that scores them.

        The workers share the blocks.
        """
        if self.eval is None:
            yield None
            return
        crew, count, rows = self.crew, self.eval.blocks, self.eval.shape.total_rows
        with self._reader(self.eval, "score") as reader:

            def score() -> dict[str, float]:
                with crew.ordered("score"):
                    blocks = own_blocks(reader, count, crew)
                    return score_blocks(team, blocks, rows, self.progress, crew)

            yield score

    def _tell(self, event: str) -> None:
        if event == "improved":
            self._best.keep()
        self.history.hear(event, self.progress)
        self._shown.hear(event, self.progress)
        for hook in self.hooks:
            getattr(hook, event)(self, self.progress)

    def _heard(self) -> bool:
        """Return whether anything listens to single blocks."""
        return bool(self.hooks) or self._shown.seen

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError, which says what does this here."""
        raise AttributeError(no_attribute("Learner", name), name=name, obj=self)

    def __repr__(self) -> str:
        """Show the model, the data, the state of training and the scores."""
        return learner_text(self, trained=self._live.has_numbers)

    def _repr_html_(self) -> str:
        """Return the same with memory and a curve as HTML, for notebooks."""
        return learner_html(self, self.history, trained=self._live.has_numbers)

    # ------------------------------------------------------------- using a model

    @answered
    def predict(self, X: Any, *, side: int = 0) -> np.ndarray[Any, Any]:
        """Return one result row per row of X, in source order.

        X: a matrix or a DataSource. Its targets, if any, are ignored.
        side: 1 if the rows of X are new columns of the training data, for models with a state of
            columns.
        """
        result: np.ndarray[Any, Any] | None = None
        source = self._source(X, side=side)
        for ids, rows in self.predictions(source, side=side):
            if result is None:
                result = np.empty((source.shape.total_rows, rows.shape[1]), rows.dtype)
            result[ids] = rows
        assert result is not None  # a source has at least one row
        return result

    def predictions(
        self, X: Any, *, side: int = 0, part: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Yield the results of `predict` block by block, for data larger than memory.

        Each item holds the numbers of the rows [r], and their results [r x k], in source order.

        part: (i, n): only the blocks of part i of n nearly equal parts, one after another.
        """
        self._live.check_trained()
        source = self._prepared(self._source(X, side=side))
        team = self._prepare(source.shape, side=side)
        team.make_ready(source.shape, side)

        def predict(replica: Replica, host: HostBlock) -> tuple[Any, Any]:
            rows = replica.predict(replica.bind(host, side, new=True)).numpy()
            return host.row_ids[: host.rows].copy(), rows[: host.rows]

        start, stop = (bounds(source.blocks, part[1])[i] for i in (part[0], part[0] + 1))
        with self._reader(source, "predict", side) as reader, team.exact():
            yield from team.in_turn(reader.blocks(0, start, stop=stop), predict)

    @answered
    def evaluate(self, X: Any, *, crew: Crew | None = None) -> dict[str, float]:
        """Return the model's scores on the rows of X, by name.

        X: a matrix, (X, Y), (X, Y, weights) or a DataSource, as for `train`.
        crew: workers that share the blocks. All call this with the same model and data, and all get
            the scores, which have the bits of one worker. None: this one alone.
        """
        self._live.check_trained()
        source = self._prepared(self._source(X, "evaluate"))
        team = self._prepare(source.shape)
        rows = team.first.shapes.total_rows
        check_rows(self.model, rows, self.row_names, source, "evaluate")
        team.make_ready(source.shape)
        with self._reader(source, "score") as reader:
            crew, rows = crew or Crew(), source.shape.total_rows
            blocks = own_blocks(reader, source.blocks, crew)
            return score_blocks(team, blocks, rows, self.progress, crew)

    @property
    def team(self) -> Team | None:
        """The replicas; None before they are made, and after `close`."""
        return self._live.team

    def backend_beside(self) -> Backend:
        """Return a backend for another cache on the device of the first replica.

        A device that is open is not opened again.
        """
        if self.team is not None and self.team.first.cache.backend.kind != "cpu":
            beside: Backend = self.team.first.cache.backend.beside()
            return beside
        return make_backend(self.devices[0], self.threads)

    def report(self) -> list[str]:
        """Return the mixins' lines about the parameters."""
        team = self._live.ready()
        columns = team.first.shapes.columns
        with team.exact():
            return [
                line
                for mixin in self.mixins
                for name, mat in mixin.tables.items()
                for line in mixin.report(
                    name, mat.numpy(), self.names if mat.shape[0] == columns else None
                )
            ]

    @answered
    def topics(self, top: int = 10, relevance: float = 1.0) -> list[list[tuple[str, float]]]:
        """Return the first words of each topic, with their probabilities, best first.

        Parts of NMF count as topics.

        relevance: 1: most probable words first; less, such as 0.6, favours words that other topics
            rarely have.

        Raises:
            ValueError: the model has no topics, or nothing is trained.
        """
        self._live.check_trained()
        shown = partial(self._live.shown, prepare=self._trainable)
        return topic_words(self.model, shown, self.names, top, relevance)

    # ------------------------------------------------------------- memory and state

    def plan(self, workers: int | None = None) -> Plan:
        """Plan the memory that training takes, before any of it is allocated.

        workers: plan for the first of so many; None: for this one, of those that there are.
        """
        source = self._training_source()
        feeds = feeds_of(self.train, self.across, self.eval)
        draft = None
        if self.team is None:
            assembly = self._assembly(workers=workers)
            draft = assembly.draft(source.shape, self._live.restored)
        plan = make_plan(
            draft or self._live.ready().first,
            feeds,
            devices=self.devices,
            shares=self._shares(workers),
            in_files=self.row_folder is not None,
            keeps_best=self._best.wanted,
            apart=self.replicas * self.crew.size > 1 and self.sync_weight < 1.0,
        )
        if draft is not None:
            draft.close()
        return plan

    def gpu_floor(self, card: Card) -> Update:
        """Return the least that a pass over the training data takes on a card; none is needed."""
        shape = self._training_source().shape
        with closing(self._assembly().counting(shape, card.room)) as replica:
            return pass_of(replica, self._training(), card)

    @cached_property
    def pass_times(self) -> PassTimes | None:
        """The least times of a pass on an H200, by who makes the index of blocks.

        None if it makes no difference.
        """
        sources = self._training()
        if self.devices[0] == "cpu" or not any(map(changes, sources)):
            return None
        card, assembly = CARDS["H200"], replace(self._assembly("host"), device_blocks=0)
        with closing(assembly.counting(sources[0].shape, card.room)) as replica:
            return pass_times(replica, sources, card, len(self.devices))

    @property
    def _indexed_by(self) -> IndexedBy:
        """Who makes the transposed index of blocks."""
        if self.index != "auto":
            return self.index
        return "host" if self.pass_times is None else self.pass_times.faster

    def trial(self, blocks: int = 3) -> Trial:
        """Estimate the cost of training from some blocks. Close the learner after it.

        Raises ConfigError if no score has the name of the metric.
        """
        team = self._prepare(self._training_source().shape)
        self._live.trained = True
        found = try_blocks(team, self._training(), self.eval, blocks)
        if self.eval is not None and self.evaluation.metric is not None:
            with self._reader(self.eval, "score") as reader:
                scores = score_blocks(
                    team, reader.blocks(0, stop=1), self.eval.shape.rows, self.progress
                )
            check_metric(self.evaluation.metric, scores)
        return found

    def parameter(self, name: str) -> np.ndarray[Any, Any]:
        """Return a copy of the parameter `name`; if it lies in a file, a file by column, read-only.

        Raises KeyError if the model does not have it, OSError if the disk has no room for the file.
        """
        return self._live.parameter(name, self._trainable)

    def row_state(self, name: str) -> np.ndarray[Any, Any]:
        """Return the state `name` of all rows (or columns) of the training data, float32.

        It is [rows x numbers], and not copied: do not change it. After `close` it is read-only; see
        there for states in files. Raises KeyError if the model has no such state.

        Of several workers, each may have its own rows only. Then all call this, and each gets all
        rows; of Ray, the program calls it.
        """
        if name not in self.model.row_states:
            known = ", ".join(self.model.row_states) or "none"
            raise KeyError(f"{type(self.model).__name__} has no row state {name!r}; known: {known}")
        return self._live.row_state(name)

    def rows_of(
        self, name: str, ids: np.ndarray[Any, Any], out: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Return the state `name` of some rows, of several workers as `row_state` does.

        ids: int64, numbers of the rows.
        out: receives them. None: a new array.
        """
        return self._live.rows_of(name, ids, out)

    def state(self, *, copy: bool = True) -> State:
        """Return the state to continue from: parameters, rows, optimizer and position.

        Of several workers, all call this, as they do `row_state`.

        In the middle of a pass its parameters may be inexact: read them with `parameter`.

        copy: False returns the arrays of training itself, which will change. Tables in files are
            never copied: they are the `pages` of the state, which training will change. States of
            rows that each worker has its own of are then `SharedRows`, to be read piece by piece.
        """
        return self._live.state(copy=copy)

    def restore(self, state: State, best: tuple[State, dict[str, float]] | None = None) -> None:
        """Continue from `state` at the next `fit`, or use its parameters for prediction.

        best: the best model of the same run so far, with its scores, if that is kept.
        """
        self._best.start_from(best)
        self._live.restore(state)

    def close(self) -> None:
        """Free the memory and stop the threads; the learner can be used again.

        The state of rows is not copied: it stays where it is, read-only. The names of its files in
        `row_folder` are removed, and other learners can take the folder. `row_state`, `state` and
        `save` still read the files.

        The files' disk space becomes free when the learner is deleted, or trains or predicts again,
        which copies the states to new files. Arrays from `row_state` and `state` must be deleted,
        too.

        After the loss of a worker nothing is kept: `fit` begins anew, or at a checkpoint.

        Raises:
            DeviceLostError: a device has failed, and what was learned is lost.
            WorkerLostError: a worker is lost now, and with it the states of its rows.
        """
        try:
            self._live.close()
        finally:
            self.crew.exchange.dismiss()

    # ------------------------------------------------------------- helpers

    def _source(
        self,
        data: Any,
        name: str | None = None,
        *,
        side: int = 0,
        visits: int = 1,
        shuffle: bool = False,
    ) -> DataSource:
        """Open `data` as a source.

        name: the use that needs its targets, if any.
        side: 1 if its rows are columns of the training data.
        """
        reading = Reading(self.block_rows, shuffle, self.seed, visits)
        columns = None if self.train is None else self.train.shape.columns
        rows = self.row_names if name in ("eval", "evaluate") else None
        known = Known() if side else Known(self.names, columns, self.target_names, rows)
        source = open_source(data, reading, self.model, known, side=side)
        if name is not None:
            check_labelled(self.model, source, name)
        return source

    def _prepared(self, source: DataSource) -> DataSource:
        """Return `source` as the model scores it, or makes predictions for it."""
        return self.model.prepared(source, self.seed, train=False)

    def _default_optimizer(self) -> Optimizer | None:
        """Return the model's default optimizer: for the training data, if there are any."""
        if self.train is None:
            return self.model.default_optimizer()
        terms = [mixin for mixin in self.mixins if mixin.acts]
        return self.model.optimizer_for(self._facts().shapes([self.train.shape]), terms)

    def _take_default_optimizer(self) -> None:
        chosen = self._default_optimizer()
        self.optimizer = None if chosen is None else chosen.model_copy()

    def _shuffles(self) -> bool:
        """Return whether the order of rows matters, so that every pass takes another one."""
        by_pass = self.optimizer is not None and self.optimizer.steps_by_pass
        by_pass = by_pass or self.model.steps_by_pass or self.model.rows_in_order
        return not by_pass and 1 not in self.model.row_states.values()

    def _trainable(self) -> Team:
        return self._prepare(self._training_source().shape)

    def _training_source(self) -> DataSource:
        if self.train is None:
            raise ValueError("Learner: there is nothing to train on; pass train=X.")
        return self.train

    def _prepare(self, shape: BlockShape, side: int = 0) -> Team:
        """Return the replicas.

        The first call makes them, for blocks of `shape` on that side.
        """
        if self._live.team is not None:
            return self._live.team
        self.block_rows = shape.rows
        if side == 0:
            self._check_columns(shape)
        try:
            replicas = self._assembly().replicas(shape, side, self._live.restored)
        except BaseException:
            if self.placed_tables is not None:
                self.placed_tables.release()
            raise
        every, weight = self.sync_every, self.sync_weight
        team = Team(replicas, sync_every=every, sync_weight=weight, crew=self.crew)
        self._live.open(team, self._shares(), seed=self.seed)
        self.model.show_shapes(self._live.shapes())
        if self.eval is not None:
            team.make_ready(self.eval.shape)
            team.tally(self.eval.shape.total_rows)
        return team

    def _shares(self, workers: int | None = None) -> list[RowShare]:
        """Return the rows of this worker, of each side; workers: the number of all."""
        rank, size = (self.crew.rank, self.crew.size) if workers is None else (0, workers)
        return [RowShare(first_rows(source), rank, size) for source in self._training()]

    def _assembly(self, index: IndexedBy | None = None, workers: int | None = None) -> Assembly:
        """Return what makes the replicas, with the settings as they are now.

        index: who makes the transposed index; None: as chosen.
        workers: of the run; None: those that there are.
        """
        workers = self.crew.size if workers is None else workers
        return Assembly(
            Parts(self.model, self.optimizer, self.mixins),
            self._facts(workers),
            self.devices,
            self.seed,
            self.threads,
            index or self._indexed_by,
            self.tables,
            self.device_blocks,
            [partial(hook.plan, self) for hook in self.hooks],
            workers,
            self.placed_tables,
        )

    def _facts(self, workers: int = 1) -> Facts:
        """Return what the model is told of the data and the run, of so many workers."""
        return Facts(
            self._training(),
            self.eval,
            self.names,
            self.target_names,
            self.targets,
            self.of_rows,
            self.passes,
            on_gpu=self.devices[0] != "cpu",
            states_in_files=self.row_folder is not None,
            rows_by_need=workers > 1 and list(self.devices) == ["cpu"],
        )

    def _check_columns(self, shape: BlockShape) -> None:
        if self.names is not None and len(self.names) != shape.columns:
            raise ShapeError(
                f"data of {shape.columns:,} columns, but the model knows {len(self.names):,} names "
                "of columns. Rows are samples, columns features: check the orientation."
            )


def _train_along(given: Mapping[str, Any], exchange: Exchange) -> None:
    """Be a worker that the learner of another process has started: follow it.

    given: arguments of the learner.
    """
    crew = Crew(exchange)
    learner = Learner(**given, engine=crew, verbose=False)
    crew.follow(learner._orders())
