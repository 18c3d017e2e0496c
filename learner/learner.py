"""The learner: trains a model on the blocks of a source, pass after pass.

`training/` holds the parts: `run_data.py` opens the data, `execution.py` has the settings,
`assembly.py` makes the replicas, `live_model.py` holds them and their state, `loop.py` trains them,
`best.py` keeps the best model, `predicting.py` and `scoring.py` use it.

Longer than 300 lines: most of them are signatures and descriptions of what users call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from blocklearn.answers import answered, no_attribute
from blocklearn.datasources import BlockShape, DataSource
from blocklearn.matcache import IndexedBy, Tables, make_backend
from blocklearn.matcache.containers.backend import Backend
from blocklearn.mixins import MIXINS, Mixin
from blocklearn.models import MODELS, Model
from blocklearn.models.states.row_share import RowShare
from blocklearn.optimizers import OPTIMIZERS, Optimizer

from .checkpoints.hook import check_folders, checkpoints_of
from .checkpoints.parts import CHECK, WRITE, PartWriter, check_parts
from .configuration.choices import evaluation_of, listed, made
from .engines.alike import check_alike, check_share
from .engines.crew import Crew
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
from .training.inputs.data import share_of
from .training.inputs.run_data import RunData
from .training.loop import Training
from .training.plans.assembly import Assembly
from .training.plans.gpu_time import CARDS
from .training.plans.index_choice import PassTimes
from .training.plans.memory import make_plan
from .training.plans.other_data import shapes_to_keep
from .training.plans.plan import Plan as Plan
from .training.plans.trial import Trial as Trial
from .training.plans.trial import try_blocks
from .training.predicting import predicted, whole
from .training.replicas.parts import Parts
from .training.scoring import score_names, scoring
from .training.settings.checks import (
    check_block_rows,
    check_fields,
    check_hooks,
    check_rows,
    check_whole,
)
from .training.settings.chosen_tables import choose_tables
from .training.settings.devices import IndexSetting
from .training.settings.evaluation import Evaluation, Evaluator, check_metric
from .training.settings.execution import Execution
from .training.settings.optimizer_checks import check_optimizer
from .training.states.best import BestModel
from .training.states.further import further, rows_before
from .training.states.live_model import LiveModel
from .training.states.state import State as State
from .training.teams.leading import Leading, stand_by
from .training.teams.reading import reader_of
from .training.teams.team import Team
from .training.topics import topic_words

MOVED = {
    "execution": "seed threads devices replicas index tables device_blocks sync_every sync_weight",
    "data": "across given targets columns block_rows of_rows",
}
"""Attributes of a learner that its records have now."""


class Learner:
    """Trains `model` on the rows of `train`, and scores it on those of `eval`.

    What is learned:

    - model: a model; or its name, such as "lda"; or {"kind": "lda", "topics": 20}. A model of your
      own is "kmeans.py:KMeans", a path from the working directory. `optimizer` and `mixins` take
      the same three forms.
    - optimizer: None: the model's own.
    - mixins: terms added to the objective, and reports.

    Data:

    - train, eval: X [rows x columns]; a tuple (X, Y) or (X, Y, weights); or a DataSource, such as
      `MatrixSource(X, targets=Y, target_names=names)`. X is a NumPy array, a
      SciPy sparse matrix, a data frame or Arrow table of numbers, or documents: a list of texts, of
      lists of words, or of gensim's pairs (word, count). Y is [rows] or [rows x targets], dense or
      sparse, a frame or series, or classes as texts; with weights it may be None. The learner keeps
      the names of columns, words, targets and classes. `evaluate` and `predict` take the same.
    - eval: also a share between 0 and 1: 0.1 holds out a tenth of the rows of `train`, or a tenth
      of its entries for models of rows and columns such as ALS.
    - block_rows: rows of a block, for data given as matrices. "auto": chosen from the model and
      the size of `train`, see `Model.rows_of_block`. `learner.data.block_rows` is the number.
    - of_rows: rows of the whole data, if `train` is one part of them; None: `train` is all.

    The course of training:

    - passes: over the training data.
    - seed: of the initial values, and of the order of rows. Each pass shuffles the rows of
      matrices. Three kinds of training do not: models that visit rows and columns in turn, such as
      ALS; optimizers that step once per pass, such as L-BFGS; models with `rows_in_order`.
    - evaluation: when to score `eval`, and which score to watch; or the name of the score.
    - hooks: called on events of training.
    - checkpoint: folder of checkpoints, made with the first of them. A checkpoint is saved after
      each pass, and every `every_blocks` blocks. `fit` resumes from the newest one, with the same
      bits as training that never stopped. None: no checkpoints. For other settings, and for errors,
      see `blocklearn.Checkpoints`, which is then the last of the `hooks`.
    - every_blocks: blocks between two checkpoints; None: only after passes.
    - verbose: whether `fit` shows its progress in a terminal or a notebook. It never does in a pipe
      or a file.

    Processors, GPUs and copies of the model; none of the first four changes a bit of the result:

    - threads: None: all that the process may use.
    - index: where the transposed index of a block is made, if the model reads it. "host": by the
      reader's threads; the index is then copied with the block. "device": by the GPU, which saves
      the host this work and the copy. "auto": where a pass is faster, by calculation; mostly the
      GPU, if rows are shuffled in each pass. The CPU always uses "host".
    - device_blocks: bytes of a GPU for data that stay there: states of rows, all rows of a matrix
      in memory, and blocks that are the same in every pass. "auto": half of what is free beside the
      plan. Blocks are the same in every pass if they come from sparse matrices that are not
      shuffled, or from `MatrixSource(X, shuffle="blocks")`; other blocks take their rows from the
      matrix.
    - device_tables: bytes of a GPU for tables with a row for each column of the data. The GPU holds
      the rows of columns that occur first in the data. The other rows lie in the host's memory,
      where the GPU reads them more slowly. None: all rows must fit. One replica.
    - device: "cpu", "cuda" (the first GPU), "cuda:N", or "auto": a GPU if CuPy sees one; or a list,
      one for each replica. Results of a GPU and of the CPU differ in their bits.
    - tables: "bfloat16": updates read topics, factors and weights from a 16-bit copy. This halves
      the time of memory-bound kernels on a GPU. Parameters, sums, scores and predictions stay
      float32. On the CPU the numbers are the same, without a gain in speed.
    - replicas: copies of the model, each with a thread and a share of `threads`, or a device. Block
      i goes to replica i mod replicas. "auto": one for each device of a list, or for each GPU that
      CuPy sees if `device` is "cuda" or "auto"; else one.
    - sync_every: blocks that each replica trains on between two merges. A merge also follows each
      pass. Parameters become their mean, statistics their sum.
    - sync_weight: in (0, 1], how far a merge within a pass moves a replica towards the mean. The
      result depends on replicas, sync_every and sync_weight, but not on timing.

    What is kept in files; the bits are those of memory:

    - row_folder: keeps the state of rows in files of the folder `row_folder/learner`, mapped into
      memory; None: in memory. One learner at a time holds that folder. The files are removed by
      `close`, when the learner is deleted, and when the process ends; after a kill, by the next
      learner there. Other files are never touched.
    - table_folder: keeps tables, that is parameters and optimizer state with a row for each column
      of the data, in files of `table_folder/learner-tables`. Several folders, on several disks,
      share the pages of each table. None: in memory. The data must be sparse, and a step must
      change only the rows that occur in a block; others may rest until the end of a pass. Other
      models are refused. The folder is locked and cleaned like `row_folder`. `parameter` returns a
      file by column, read-only.

    Several workers, each a process with a learner of its own, train one model. Worker w reads
    blocks w, w + workers, ... of each pass, and has `replicas` replicas. The result has the bits of
    replicas * workers replicas in one process. The workers share the blocks of `eval`; worker 0
    calls hooks:

    - engine: how workers find each other. "local": there is one worker. "mpi": the processes that
      `mpirun` started; each makes this learner. "ray": this process is worker 0, and Ray starts the
      others, on this machine, or in the cluster of RAY_ADDRESS or of your `ray.init`; they end with
      `close`. "auto": "mpi" if `mpirun` started this process with others, "ray" if RAY_ADDRESS is
      set and `workers` is above 1, else "local". Or an `Exchange`.
    - workers: number of workers. "ray" starts them; for "mpi" the number is checked. None: those
      that were started.

    Attributes:
        model, optimizer, mixins: those that are trained.
        data: the data and their facts: `.given`, `.names`, `.targets`, `.columns`, `.block_rows`.
        execution: settings of the computation: `.seed`, `.threads`, `.devices`, `.replicas`.
        progress: how far training is: passes, blocks, rows, seconds, and the last scores.
        history: scores and times of all evaluations, which `plot` draws.

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
        model = made("model", MODELS, model)
        check_fields(model)
        check_whole("passes", passes)
        check_block_rows(block_rows)
        self.execution = Execution.on(
            device,
            replicas,
            seed=seed,
            threads=threads,
            index=index,
            tables=tables,
            device_blocks=device_blocks,
            sync_every=sync_every,
            sync_weight=sync_weight,
        )
        self.model = (model if train is None else model.for_run(passes)).untrained()
        self.passes = passes
        self.mixins = [made("mixins", MIXINS, mixin).model_copy() for mixin in listed(mixins)]
        self.optimizer, self._chosen = None, optimizer is not None
        if optimizer is not None:
            self.optimizer = made("optimizer", OPTIMIZERS, optimizer).model_copy()
        self._untrained = self.parts.copies()
        self.hooks = [*listed(hooks), *checkpoints_of(checkpoint, every_blocks)]
        self._planned_for: list[Hook] = []  # hooks, when replicas were made
        check_hooks(self.hooks)
        check_folders(self.hooks)
        self.evaluation = evaluation_of(evaluation)
        if self.evaluation.metric is not None and eval is None:
            raise ValueError("Learner: evaluation.metric is a score of the eval data; pass eval=X.")
        if not isinstance(engine, Crew):
            engine = crew_of(engine, workers, self._task, threads)
        self.crew = engine
        check_devices(self.crew, self.execution.devices)
        self.execution = replace(self.execution, threads=self.crew.exchange.threads(threads))
        if isinstance(row_folder, Path | str):
            row_folder = RowFolder(Path(row_folder), self.crew.folder_name("learner"))
        self.row_folder = row_folder
        self.placed_tables = choose_tables(
            table_folder,
            device_tables,
            self.execution,
            workers=self.crew.size,
            keeps_best=self.evaluation.keep_best and self.evaluation.metric is not None,
        )
        starts = self.crew.exchange.starts  # else the data need not be kept
        self._given = (train, eval) if starts else (None, None)
        self.data = RunData(
            self.model,
            seed=seed,
            replicas=self.execution.replicas * self.crew.size,
            block_rows=self.model.rows_of_block if block_rows == "auto" else block_rows,
            of_rows=of_rows,
        )
        scored = self.evaluation.visits(passes)
        self.data.open(train, eval, shuffle=self._shuffles(), passes=passes, scored=scored)
        self._take_default_optimizer()
        self.verbose, self.history, self._shown = verbose, History(), Shown(None)
        self._begin()

    @property
    def train(self) -> DataSource | None:
        """The training data, as the model reads them; None: there are none."""
        return self.data.train

    @property
    def eval(self) -> DataSource | None:
        """The data of scores; None: there are none."""
        return self.data.eval

    @property
    def names(self) -> Sequence[str] | None:
        """The names of columns; None: unknown."""
        return self.data.names

    @property
    def target_names(self) -> Sequence[str] | None:
        """The names of targets; None: unknown."""
        return self.data.target_names

    @property
    def row_names(self) -> Sequence[str] | None:
        """The names of the rows of training; None: unknown."""
        return self.data.row_names

    def _begin(self) -> None:
        """Begin at the first pass of the data, without any learned numbers."""
        blocks = sum(source.blocks for source in self.data.sides)
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
        source = self.data.training
        team, progress = self._prepare(source.shape), self.progress
        self.check_workers()
        self._live.trained, progress.passes = True, self.passes
        orders = self._orders()
        lead = Leading(self.crew, progress, orders)
        team.meet()
        with ExitStack() as stack:
            lead(lambda: self._start(stack, team))
            self._live.share()
            team.meet()
            readers = [
                stack.enter_context(reader_of(team, source, "train", side))
                for side, source in enumerate(self.data.sides)
            ]
            score = None
            if self.eval is not None:
                own = stack.enter_context(scoring(team, self.eval, progress, self.crew))
                orders["score"] = score = self.crew.ordered("score")(own)
            evaluator = Evaluator(self.evaluation, progress, score, self._tell)
            sides = list(zip(self.data.sides, readers, strict=True))
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
        train, eval = self._given
        settings = self.execution
        given = {
            "model": self._untrained.model,
            "optimizer": self._untrained.optimizer,
            "mixins": self._untrained.mixins,
            "train": train,
            "eval": eval,
            "evaluation": self.evaluation,
            "passes": self.passes,
            "block_rows": self.data.block_rows,
            "threads": settings.threads,
            "row_folder": None if self.row_folder is None else self.row_folder.path.parent,
            "index": settings.index,
            "of_rows": self.data.of_rows,
            **settings.decisive(),
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

    def _start(self, stack: ExitStack, team: Team) -> None:
        self._check_metric(team)  # before hours of training
        self._best.begin()
        self._shown = stack.enter_context(shown(self.verbose))
        self._tell("start")

    def check_workers(self) -> None:
        """Check that all workers train the same model, and that each has a block; all call this.

        Raises ConfigError otherwise.
        """
        if self.crew.size > 1:
            check_alike(self.crew, self._card())
        check_share(self.crew.size, self.data.training.blocks)

    def _card(self) -> dict[str, Any]:
        """Return what must be the same on all workers."""
        own = {"version": version("blocklearn"), "passes": self.passes}
        return own | self.parts.json() | self.execution.decisive() | self.data.sizes()

    def _turn_to(self, train: Any, eval: Any, passes: int) -> None:
        """Continue at the end of the passes so far, with other data."""
        check_whole("passes", passes)
        if share_of(eval) is not None:
            raise ValueError(
                f"Learner.fit: eval={eval}: must be data: shares are of the first data."
            )
        data = self.data
        if not self._live.has_numbers:
            self.model = data.model = self.model.for_run(passes)
        source = data.source(train, "train", shuffle=self._shuffles())
        state, before = None, 0
        if self._live.has_numbers:
            state = further(self.state(), self.parts, data.row_names, source)
            before = rows_before(self.progress)
        data.check_columns(source.shape)
        hooks = [*map(id, self.hooks)] == [*map(id, self._planned_for)]  # they plan memory, too
        stays = self.crew.size == 1 and eval is None and state is not None and hooks
        if self._live.team is not None and not stays:
            self._live.drop()
        self.crew.exchange.renew()  # the next workers get the new data
        data.turn_to(source, eval, before)
        if self.crew.exchange.starts:
            self._given = train, data.given[1] if eval is None else eval
        self.passes = self.progress.position[0] + passes
        kept = self._keep_replicas(state)
        self._begin()
        if state is not None:
            self.restore(state)
        if kept is not None:
            self._live.open(kept, self._shares(), seed=self.execution.seed)

    def _keep_replicas(self, state: State | None) -> Team | None:
        """Return the present replicas, if they can train on the present data; else drop them."""
        optimizer = self.optimizer
        self._take_default_optimizer()
        if self._live.team is None or state is None:
            return None
        team = self._live.team
        shapes = shapes_to_keep(team, self.assembly(), optimizer, state)
        if shapes is None:
            self._live.drop()
            return None
        self.optimizer = optimizer  # the one that the replicas have
        for replica in team.replicas:
            replica.take(shapes)
        return self._live.let_go()

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

    if not TYPE_CHECKING:  # else a checker of types would know any name

        def __getattr__(self, name: str) -> Any:
            """Return what has moved to `execution` or `data`, with a warning.

            Raises AttributeError, which says what does this here.
            """
            there = next((record for record, names in MOVED.items() if name in names.split()), "")
            if there in self.__dict__:
                text = f"Learner.{name} is now Learner.{there}.{name}"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                return getattr(self.__dict__[there], name)
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
        source = self.data.source(X, side=side)
        return whole(source.shape.total_rows, self.predictions(source, side=side))

    def predictions(
        self, X: Any, *, side: int = 0, part: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Yield the results of `predict` block by block, for data larger than memory.

        Each item holds the numbers of the rows [r], and their results [r x k], in source order.

        part: (i, n): only the blocks of part i of n nearly equal parts, one after another.
        """
        self._live.check_trained()
        source = self.data.prepared(self.data.source(X, side=side))
        team = self._prepare(source.shape, side=side)
        yield from predicted(team, source, side, part)

    @answered
    def evaluate(self, X: Any, *, crew: Crew | None = None) -> dict[str, float]:
        """Return the model's scores on the rows of X, by name.

        X: a matrix, (X, Y), (X, Y, weights) or a DataSource, as for `train`.
        crew: workers that share the blocks. All call this with the same model and data, and all get
            the scores, which have the bits of one worker. None: this one alone.
        """
        self._live.check_trained()
        source = self.data.prepared(self.data.source(X, "evaluate"))
        team = self._prepare(source.shape)
        rows = team.first.shapes.total_rows
        check_rows(self.model, rows, self.row_names, source, "evaluate")
        team.make_ready(source.shape)
        with scoring(team, source, self.progress, crew or Crew()) as score:
            return score()

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
        return make_backend(self.execution.devices[0], self.execution.threads)

    def report(self) -> list[str]:
        """Return the mixins' lines about the parameters."""
        team = self._live.ready()
        with team.exact():
            return self.parts.report(team.first.shapes.columns, self.names)

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
        draft = None
        if self.team is None:
            shape = self.data.training.shape
            draft = self.assembly(workers=workers).draft(shape, self._live.restored)
        plan = make_plan(
            draft or self._live.ready().first,
            self.data,
            self.execution,
            shares=self._shares(workers),
            workers=self.crew.size if workers is None else workers,
            keeps_best=self._best.wanted,
        )
        if draft is not None:
            draft.close()
        return plan

    @cached_property
    def pass_times(self) -> PassTimes | None:
        """The least times of a pass on an H200, by who makes the index of blocks.

        None if it makes no difference.
        """
        return self.assembly("host").pass_times(CARDS["H200"])

    def trial(self, blocks: int = 3) -> Trial:
        """Estimate the cost of training from some blocks. Close the learner after it.

        Raises ConfigError if no score has the name of the metric.
        """
        team = self._prepare(self.data.training.shape)
        self._live.trained = True
        found = try_blocks(team, self.data.sides, self.eval, blocks)
        self._check_metric(team)
        return found

    def _check_metric(self, team: Team) -> None:
        """Raise ConfigError if no score of the eval data has the name of the metric."""
        if self.eval is not None and self.evaluation.metric is not None:
            added = [name for hook in self.hooks for name in hook.adds]
            check_metric(self.evaluation.metric, [*score_names(team, self.eval), *added])

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

    def _take_default_optimizer(self) -> None:
        """Step with the model's default optimizer for the data, unless one was chosen."""
        if not self._chosen:
            found = self.assembly("host").optimizer_for_data()
            check_optimizer(self.model, found)
            self.optimizer = None if found is None else found.model_copy()

    def _shuffles(self) -> bool:
        """Return whether the order of rows matters, so that every pass takes another one."""
        by_pass = self.optimizer is not None and self.optimizer.steps_by_pass
        by_pass = by_pass or self.model.steps_by_pass or self.model.rows_in_order
        return not by_pass and 1 not in self.model.row_states.values()

    def _trainable(self) -> Team:
        return self._prepare(self.data.training.shape)

    def _prepare(self, shape: BlockShape, side: int = 0) -> Team:
        """Return the replicas.

        The first call makes them, for blocks of `shape` on that side.
        """
        if self._live.team is not None:
            return self._live.team
        self.data.block_rows = shape.rows
        if side == 0:
            self.data.check_columns(shape)
        self._planned_for = [*self.hooks]
        team = self.assembly().team(shape, side, self._live.restored, self.crew)
        self._live.open(team, self._shares(), seed=self.execution.seed)
        self.model.show_shapes(self._live.shapes())
        if self.eval is not None:
            team.make_ready(self.eval.shape)
            team.tally(self.eval.shape.total_rows)
        return team

    def _shares(self, workers: int | None = None) -> list[RowShare]:
        """Return the rows of this worker, of each side; workers: the number of all."""
        rank, size = (self.crew.rank, self.crew.size) if workers is None else (0, workers)
        return self.data.shares(rank, size)

    @property
    def parts(self) -> Parts:
        """The model, its optimizer and its mixins."""
        return Parts(self.model, self.optimizer, self.mixins)

    def assembly(self, index: IndexedBy | None = None, workers: int | None = None) -> Assembly:
        """Return what makes the replicas, with the settings as they are now.

        index: who makes the transposed index; None: as chosen.
        workers: of the run; None: those that there are.
        """
        return Assembly(
            self.parts,
            self.data,
            self.execution,
            passes=self.passes,
            index=index or self._indexed_by,
            extras=[partial(hook.plan, self) for hook in self.hooks],
            workers=self.crew.size if workers is None else workers,
            states_in_files=self.row_folder is not None,
            files=self.placed_tables,
        )

    @property
    def _indexed_by(self) -> IndexedBy:
        """Who makes the transposed index of blocks."""
        if self.execution.index != "auto":
            return self.execution.index
        return "host" if self.pass_times is None else self.pass_times.faster


def _train_along(given: Mapping[str, Any], exchange: Exchange) -> None:
    """Be a worker that the learner of another process has started: follow it.

    given: arguments of the learner.
    """
    crew = Crew(exchange)
    learner = Learner(**given, engine=crew, verbose=False)
    crew.follow(learner._orders())
