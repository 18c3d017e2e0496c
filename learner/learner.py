"""The learner: trains a model on the blocks of a source, pass after pass.

What it does with a model, trained or not, is in `training/model_in_use.py`. `training/` has the
other parts: `settings/execution.py` the settings, `loop.py` the passes, `states/best.py` the best
model.

Longer than 300 lines: half of them are signatures and descriptions of what users call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from blocklearn.answers import answered
from blocklearn.matcache import Tables
from blocklearn.mixins import MIXINS, Mixin
from blocklearn.models import MODELS, Model
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
from .training.model_in_use import ModelInUse
from .training.plans.memory import make_plan
from .training.plans.plan import Plan as Plan
from .training.plans.trial import Trial as Trial
from .training.plans.trial import try_blocks
from .training.replicas.parts import Parts
from .training.scoring import TrainingScores, score_names, scoring
from .training.settings.checks import check_block_rows, check_fields, check_hooks, check_passes
from .training.settings.chosen_tables import choose_tables
from .training.settings.devices import IndexSetting
from .training.settings.evaluation import Evaluation, Evaluator, check_metric
from .training.settings.execution import Execution
from .training.states.best import BestModel
from .training.states.further import further, passes_of, rows_before
from .training.states.state import State as State
from .training.teams.leading import Leading, stand_by
from .training.teams.reading import reader_of
from .training.teams.team import Team


class Learner(ModelInUse):
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
      memory; None: in memory, whether it fits or not (`plan` tells). One learner at a time holds
      that folder. The files are removed by `close`, when the learner is deleted, and when the
      process ends; after a kill, by the next learner there. Other files are never touched.
    - table_folder: keeps tables, that is parameters and optimizer state with a row for each column
      of the data, in files of `table_folder/learner-tables`. Several folders, on several disks,
      share the pages of each table. None: in memory. The data must be sparse, and a step must
      change only the rows that occur in a block; others may rest until the end of a pass. Other
      models are refused. The folder is locked and cleaned like `row_folder`. `parameter` returns a
      file by column, read-only. Several workers have files of their own, and fetch rows by need.

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
        scores_training: whether blocks of training are scored now and then, for `progress`.

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
        check_passes(passes)
        check_block_rows(block_rows)
        execution = Execution.on(
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
        model = (model if train is None else model.for_run(passes)).untrained()
        terms = [made("mixins", MIXINS, mixin).model_copy() for mixin in listed(mixins)]
        if optimizer is not None:
            optimizer = made("optimizer", OPTIMIZERS, optimizer).model_copy()
        parts = Parts(model, optimizer, terms)
        self._untrained = parts.copies()
        self.hooks = [*listed(hooks), *checkpoints_of(checkpoint, every_blocks)]
        check_hooks(self.hooks)
        check_folders(self.hooks)
        self.evaluation = evaluation_of(evaluation)
        if self.evaluation.metric is not None and eval is None:
            raise ValueError("Learner: evaluation.metric: needs held-out data. Pass eval=X.")
        if not isinstance(engine, Crew):
            engine = crew_of(engine, workers, self._task, threads)
        crew = engine
        check_devices(crew, execution.devices)
        execution = replace(execution, threads=crew.exchange.threads(threads))
        if isinstance(row_folder, Path | str):
            row_folder = RowFolder(Path(row_folder), crew.folder_name("learner"))
        places = choose_tables(
            table_folder,
            device_tables,
            execution,
            crew=crew,
            keeps_best=self.evaluation.keeps_best,
        )
        self._given = (train, eval) if crew.exchange.starts else (None, None)  # for other workers
        data = RunData(
            model,
            seed=seed,
            replicas=execution.replicas * crew.size,
            block_rows=model.rows_of_block if block_rows == "auto" else block_rows,
            of_rows=of_rows,
        )
        scored = self.evaluation.visits(passes)
        data.open(train, eval, shuffle=parts.shuffled, passes=passes, scored=scored)
        parts = replace(parts, model=data.decide(data.given[0], passes))
        self.verbose, self.history, self._shown = verbose, History(), Shown(None)
        super().__init__(
            parts, execution, data, passes=passes, crew=crew, row_folder=row_folder, tables=places
        )

    def _begin(self) -> None:
        super()._begin()
        self._best = BestModel(self._live, self.progress, self.evaluation)
        self.part_writer = PartWriter(self._live, self.progress)  # of checkpoints

    def _beside(self) -> list[partial[None]]:
        return [partial(hook.plan, self) for hook in self.hooks]

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
        self._fit_in_order()
        return self

    def fit_from(self, state: State, train: Any) -> None:
        """Do what `restore(state)` and `fit(train)` do, of a learner that has trained."""
        self._turn_to(train, None, 1, state)
        self._fit_in_order()

    def _fit_in_order(self) -> None:
        with self.crew.guard(exit_code), self.crew.ordered("fit"):
            self._fit()

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
            look = TrainingScores(progress) if self.scores_training else None
            Training(team, sides, progress, evaluator, self._tell, self._heard, lead, look).run()
        lead(self._best.put_back)
        self._live.share(self._best.rows)
        self._best.rows.clear()
        team.gather()
        team.meet()

    def _start(self, stack: ExitStack, team: Team) -> None:
        self._check_metric(team)  # before hours of training
        self._best.begin()
        self._shown = stack.enter_context(shown(self.verbose))
        self._tell("start")

    def _tell(self, event: str) -> None:
        if event == "improved":
            self._best.keep()
        self.history.hear(event, self.progress)
        self._shown.hear(event, self.progress)
        for hook in self.hooks:
            getattr(hook, event)(self, self.progress)

    def _heard(self) -> bool:
        """Return whether anything listens to single blocks."""
        own = [getattr(hook.block, "__func__", None) is not Hook.block for hook in self.hooks]
        return any(own) or self._shown.seen

    def restore(self, state: State, best: tuple[State, dict[str, float]] | None = None) -> None:
        """Continue from `state` at the next `fit`, or use its parameters for prediction.

        best: the best model of the same run so far, with its scores, if that is kept.
        """
        self._best.start_from(best)
        self._live.restore(state)

    def _turn_to(self, train: Any, eval: Any, passes: int, state: State | None = None) -> None:
        """Continue at the end of the passes so far, with other data.

        state: to continue from; None: the present one, if there is any.
        """
        check_passes(passes)
        if share_of(eval) is not None:
            raise ValueError(
                f"Learner.fit: eval={eval}: must be data. A share is held out of the first data "
                "only."
            )
        data = self.data
        if not self._live.has_numbers:
            self.model = data.model = self.model.for_run(passes)
        source = data.source(train, "train", shuffle=self.parts.shuffled)
        begun, before = 0, 0
        if not self._live.has_numbers:
            self.model = data.decide(source, passes)
        else:
            state = further(state or self.state(), self.parts, data.row_names, source)
            begun, before = passes_of(state), rows_before(state)
        data.check_columns(source.shape)
        stays = self.crew.size == 1 and eval is None and state is not None and self._planned_as_now
        if self.team is not None and not stays:
            self._live.drop()
        self.crew.renew()  # the next workers get the new data
        data.turn_to(source, eval, before)
        if self.crew.exchange.starts:
            self._given = train, data.given[1] if eval is None else eval
        self.passes = begun + passes
        kept = self._keep_replicas(state)
        self._begin()
        if state is not None:
            self.restore(state)
        if kept is not None:
            self._live.open(kept, self._shares(), seed=self.execution.seed)

    # ------------------------------------------------------------- several workers

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
        settings, files = self.execution, self.placed_tables
        given = {
            **vars(self._untrained),
            "train": train,
            "eval": eval,
            "evaluation": self.evaluation,
            "passes": self.passes,
            "block_rows": self.data.block_rows,
            "threads": settings.threads,
            "row_folder": None if self.row_folder is None else self.row_folder.path.parent,
            "table_folder": None if not isinstance(files, TableFiles) else files.parents,
            "index": settings.index,
            "of_rows": self.data.of_rows,
            **settings.decisive(),
        }
        return partial(_train_along, given)

    def alone(self) -> AbstractContextManager[None]:
        """Use the model on the worker that leads, while the others `stand_by`.

        After `fit`, every worker has the parameters. But each may have the states of its own rows
        only. And if a hook has stopped the run where replicas were apart (`sync_weight` below 1),
        reading parameters takes all workers.
        """
        return self.crew.leading()

    def stand_by(self) -> None:
        """Help the worker that leads, until the end of its `alone`."""
        self.crew.follow(self._orders())

    def check_workers(self) -> None:
        """Check that all workers train the same model, and that each has a block; all call this.

        Raises ConfigError otherwise.
        """
        if self.crew.size > 1:
            own = {"version": version("blocklearn"), "passes": self.passes}
            own |= self.parts.json() | self.execution.decisive() | self.data.sizes()
            check_alike(self.crew, own)
        check_share(self.crew.size, self.data.training.blocks)

    # ------------------------------------------------------------- showing and planning

    def __repr__(self) -> str:
        """Show the model, the data, the state of training and the scores."""
        return learner_text(self, trained=self._live.has_numbers)

    def _repr_html_(self) -> str:
        """Return the same with memory and a curve as HTML, for notebooks."""
        return learner_html(self, self.history, trained=self._live.has_numbers)

    def plan(self, workers: int | None = None) -> Plan:
        """Plan the memory that training takes, before any of it is allocated.

        workers: plan for the first of so many; None: for this one, of those that there are.
        """
        with self._drafted(workers) as replica:
            return make_plan(
                replica,
                self.data,
                self.execution,
                shares=self._shares(workers),
                workers=self.crew.size if workers is None else workers,
                keeps_best=self.evaluation.keeps_best,
            )

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


def _train_along(given: Mapping[str, Any], exchange: Exchange) -> None:
    """Be a worker that the learner of another process has started: follow it.

    given: arguments of the learner.
    """
    crew = Crew(exchange)
    learner = Learner(**given, engine=crew, verbose=False)
    try:
        crew.follow(learner._orders())
    finally:
        if learner.team is not None:
            learner._live.drop()  # removes the files of tables and of states
