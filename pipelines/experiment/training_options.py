"""The `[training]` table of a ranking model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from pipelines.common.toml_table import TomlTable
from pipelines.experiment.loop_options import LoopOptions
from recsys_attn.schema import Task


class Uncertainty(TomlTable):
    """A weight for each task by the size of its loss, learned with the model."""

    name: Literal["uncertainty"] = "uncertainty"


class GradNorm(TomlTable):
    """Weights that balance the gradients of the tasks.

    Attributes:
        alpha: How much more the tasks count whose loss has fallen less than that of others, at
            least 0. 0 makes the gradients equal; lower it for tasks that are much alike.
    """

    name: Literal["gradnorm"] = "gradnorm"
    alpha: float = Field(default=1.5, ge=0)


TaskWeightOptions: TypeAlias = Literal["uncertainty", "gradnorm"] | Uncertainty | GradNorm


def with_options(options: TaskWeightOptions) -> Uncertainty | GradNorm:
    """The options of a name, or those that are given."""
    if isinstance(options, str):
        return Uncertainty() if options == "uncertainty" else GradNorm()
    return options


def check_tasks(
    tasks: Sequence[Task], task_weights: TaskWeightOptions | None, calibrate: bool
) -> None:
    """Checks losses and weights of the tasks, before any work.

    Raises:
        ValueError: There is nothing to weigh, or there are two kinds of weights, or a loss whose
            sigmoid is no probability is not calibrated.
    """
    if task_weights is not None:
        name = with_options(task_weights).name
        if len(tasks) < 2:
            raise ValueError(
                f"`training.task_weights` weighs tasks against each other, and there is one. "
                f"Remove it, or add a task. Received: {name!r}"
            )
        for index, task in enumerate(tasks):
            if task.weight != 1:
                raise ValueError(
                    f"`training.task_weights` learns the weights, so that "
                    f"`tasks[{index}].weight` would have no effect. Keep one of them. "
                    f"Received: {name!r} and weight={task.weight}"
                )
    for index, task in enumerate(tasks):
        if task.loss_options.needs_calibration and not calibrate:
            raise ValueError(
                f"`tasks[{index}].loss` ({task.loss_options.name}) teaches probabilities that are "
                "right only once they are calibrated. Remove `training.calibrate = false`, or "
                'choose the loss "cross_entropy"'
            )


class TeacherOptions(TomlTable):
    """The table `teacher` of `[training]`.

    Attributes:
        run: Folder of the run of a trained model, on the same data and features; the student may
            leave features out by `model.exclude`.
        weight: Share of the teacher's probability in a label.
    """

    run: Path
    weight: float = Field(default=0.5, gt=0, le=1)


class NegativeOptions(TomlTable):
    """The `[training.negatives]` table: items drawn for each request of the training.

    Attributes:
        count: Items to draw for each request.
        by: `"uniform"`; `"popularity"`: by (1 + positives in the train rows) ** 0.75; `"batch"`:
            positives of the batch's other requests; `"hard"`: of `count * pool` uniform draws,
            those that the model scores highest.
        pool: With `by = "hard"`, draws for each item kept.
    """

    count: int = Field(default=20, ge=1)
    by: Literal["uniform", "popularity", "batch", "hard"] = "uniform"
    pool: int = Field(default=4, ge=2)

    @model_validator(mode="after")
    def _check_pool(self) -> NegativeOptions:
        if self.by != "hard" and self.pool != NegativeOptions.model_fields["pool"].default:
            raise ValueError(f'`pool` needs `by = "hard"`. Received: by={self.by!r}')
        return self


class TrainingOptions(LoopOptions):
    """The `[training]` table.

    Attributes:
        epochs: Maximum number of epochs; training ends before by `patience`. 0 only with `prune`.
        batch_size: Requests of each shard in a step. None: so many that an epoch has about 256
            steps, at least 32 and at most 1024: few rows in large batches would take few steps.
        shards: Parts of the data, each of which gives a batch to each step. None: one for each
            replica. One worker with two shards takes the same steps as two workers.
        learning_rate: Learning rate; with a row-wise optimizer, of all weights but the tables.
        embeddings_learning_rate: Learning rate of the tables with a row-wise optimizer. None:
            `learning_rate`.
        optimizer: `"lazy_adam"`, `"lazy_adagrad"` and `"row_wise_adagrad"` are row-wise: they
            update the rows of the tables that a batch looks up, and Adam the rest. `"adam"`,
            `"adagrad"` and `"sgd"` are Keras' own, whose steps update the whole tables.
        weight_decay: Decoupled weight decay; with a row-wise optimizer, only of the table rows
            that are looked up.
        clip_norm: Maximum global norm of the gradients.
        warmup_steps: Steps of linear warm-up of the learning rate.
        cosine_steps: Steps of cosine decay to zero after the warm-up; 0 for none.
        penalty_warmup: Two numbers of steps. The penalties that layers add to the loss, those of
            `gates`, `disagreement` and `balance`, are zero before the first and grow linearly until
            the second. Raise both with `gates`, so that the model learns before they close.
        learning_rate_decay: Factor of the learning rate after each epoch.
        reduce_on_plateau: Factor of the learning rate after an epoch that is no better; 1 keeps it.
            Epochs before the first with an AUC above chance do not count.
        patience: Epochs without a better one after which training stops. An epoch whose AUC is
            worse than the best by no more than noise counts half. Epochs before the first with an
            AUC above chance do not count.
        keep: Which weights are the result: those of the best epoch, or of the last. Set `"last"`
            with `gates`, since the best epoch is one before they close; then `patience` has no
            effect.
        monitor: Validation metric by which an epoch is better: a task (its AUC), a metric such as
            `"auc"` or `"ndcg@10"` (the plain mean of all tasks), or `"click/ndcg@10"`. None: the
            mean AUC of the tasks, each weighted by its precision, so that a task with few positives
            has little weight; or, where a task's loss gives no probabilities, the plain mean of
            its NDCG@10 and the AUC of the others.
        precision: `"mixed_bfloat16"` computes in bfloat16 and keeps float32 weights.
        jit_compile: Compile the tower with XLA. None: false, unless the measurement at the start of
            a long training finds it faster. false also switches the measurement off.
        micro_batch_size: Candidates that the tower computes at a time, few enough to stay in a
            processor's cache; gradients are added up over the whole batch, while dropout,
            statistics of a batch and losses that layers add are those of a micro-batch, which then
            has at least 32 requests. 0: the whole batch at once. None: 64, or more for a tower of
            many weights; with a GPU the whole batch. Where this and `jit_compile` are left out and
            an epoch has 500,000 rows or more, the fastest way is measured at the start, and
            remembered for the machine.
        shuffle_rows: Rows that are shuffled together, at least a row group; twice as many are in
            memory. Raise it for sorted data.
        embeddings_l2: L2 penalty of the embedding tables. With a row-wise optimizer, of the rows
            looked up, each divided by its frequency (as in DIN), usually 1 to 50; else of all rows
            in each step, which is slow with a large vocabulary, usually 1e-6 to 0.05: numbers of
            one kind are far too large or small for the other. None: 3 with a row-wise optimizer,
            else 0.
        embeddings_stddev: Standard deviation of the initial rows of the embedding tables. Lower it
            where seeds differ much; BARS has 1e-4. None: 0.01.
        fresh_tables: When `patience` has ended, training goes back to the best epoch once, and
            each further epoch starts with the embedding tables of the start: the tower learns from
            ids whose rows have not seen the label yet, as it meets them in serving, and no longer
            from ids that are known by heart. Set false for the settings of a paper.
        id_dropout: Share of all ids of a step that are made unknown; 0 for none. None: half of
            those that only the last train rows have, as a model trained before them would not know
            them; so the row of unknown values learns what new ids are.
        state_dropout: Share of the requests of a step whose features of a store (columns of
            `data.histories`, `data.aggregates` and `data.users`) are all missing. Set 0.05 for a
            model behind `serve --state`, so that it has seen what it gets when the store does not
            answer.
        calibrate: Fit slope and offset of each task's logits on the validation rows, so that
            predicted rates are the observed ones. The order of candidates stays.
        negatives: Items drawn for each request, as further candidates. None: only those of the
            rows.
        warm_start: Folder of an older run of the same model, to start from its weights and
            optimizer; table rows are matched by value, and `gates` that it did not have are new.
        prune: Folder of a run on the same data whose model has `gates`: training starts from that
            model without what its gates closed, or with `prune_heads` of a model without gates. The
            table `model` must be that of the run.
        prune_heads: Number of heads that `prune` keeps of a model without gates, of all places of
            attention with several heads together, at least one in each: the highest on the
            validation rows. None: what the gates say.
        prune_by: What heads are ranked by: `"relevance"`, the size of gradient times output, or
            `"confidence"`, the mean of the largest weight. None: relevance.
        teacher: An older run whose probabilities are part of the labels (distillation), so that a
            smaller model learns more than from the labels alone.
        task_weights: Learned weights of the tasks' losses, in place of their `weight`, by name or
            with options: `"uncertainty"`, by the size of each loss, or `"gradnorm"`, so that the
            tasks' gradients are alike. Set it where one task learns and another does not. None:
            the `weight` of each task.
        checkpoint_every: Steps between checkpoints; 0: only at the end of each epoch.
        keep_checkpoints: Number of last checkpoints to keep, besides the best.
    """

    penalty_warmup: tuple[int, int] = (0, 0)
    monitor: str | None = None
    embeddings_stddev: float | None = Field(default=None, gt=0)
    jit_compile: bool | None = None
    micro_batch_size: int | None = Field(default=None, ge=0)
    fresh_tables: bool = True
    id_dropout: float | None = Field(default=None, ge=0, lt=1)
    state_dropout: float = Field(default=0.0, ge=0, lt=1)
    calibrate: bool = True
    negatives: NegativeOptions | None = None
    warm_start: Path | None = None
    prune: Path | None = None
    prune_heads: int | None = Field(default=None, ge=1)
    prune_by: Literal["relevance", "confidence"] | None = None
    teacher: TeacherOptions | None = None
    task_weights: TaskWeightOptions | None = None

    @property
    def renews_tables(self) -> bool:
        return self.fresh_tables

    @property
    def penalty_steps(self) -> tuple[int, int]:
        return self.penalty_warmup

    @model_validator(mode="after")
    def _check(self) -> TrainingOptions:
        if self.prune is None and not self.epochs:
            raise ValueError("`epochs` must be at least 1 without `prune`. Received: epochs=0")
        if self.prune is not None and self.warm_start is not None:
            raise ValueError("`prune` and `warm_start` are two models to start from. Keep one")
        if self.prune is None and self.prune_heads is not None:
            raise ValueError(
                "`prune_heads` is a number of heads of the run that `prune` names. Add `prune`, or "
                f"remove it. Received: prune_heads={self.prune_heads}"
            )
        if self.prune_heads is None and self.prune_by is not None:
            raise ValueError(
                "`prune_by` ranks heads of which `prune_heads` are kept. Add `prune_heads`, or "
                f"remove it. Received: prune_by={self.prune_by!r}"
            )
        first, last = self.penalty_warmup
        if not 0 <= first <= last:
            raise ValueError(
                "`penalty_warmup` has the step at which the penalties start to grow, then the step "
                f"from which they are whole. Received: penalty_warmup=[{first}, {last}]"
            )
        return self
