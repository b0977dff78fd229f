"""A model with its weights in 16 or 8 bits, for a smaller export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from pipelines.experiment.export_options import ExportOptions, Storage
from recsys_attn.backend.sparse_gradients import rows_at
from recsys_attn.embedding_tables import Table
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.layer import Layer
from recsys_attn.models import RankingModel
from recsys_attn.models.ensemble import EnsembleEmbedding
from recsys_attn.tensors import Shape, Tensor

_LARGEST_16, _LARGEST_8 = float(np.finfo("float16").max), 127


def shrink(model: RankingModel, options: ExportOptions) -> RankingModel:
    """Returns a model for inference with the weights of `model` in fewer bits.

    `int8` keeps the numbers `q` and scales `s` of `w ~ q s`: a scale for each row of a table, and
    for each output of a matrix of the tower. Rows are read first and become float32 then. Vectors
    of the tower (biases, norms) stay float32. Nothing else changes: the sums are in float32.

    Args:
        model: The trained model.
        options: Have the storage of tables and tower.
    """
    embedding, tables, tower = model.embedding, options.tables, options.tower
    small = RankingModel(
        embedding if tables == "float32" else _small(embedding, tables),
        model.tower if tower == "float32" else SmallTower(model.tower, tower),
        name=model.name,
    )
    small.calibrate(model.calibration())
    return small


class Numbers(NamedTuple):
    """A weight in few bits: `numbers`, times `scales` for 8 bits."""

    numbers: np.ndarray
    scales: np.ndarray | None = None

    @classmethod
    def of(cls, weight: np.ndarray, storage: Storage, axis: int) -> Numbers:
        """Rounds a weight; in 8 bits with a scale for each part along `axis`."""
        if storage == "float16":
            return cls(weight.clip(-_LARGEST_16, _LARGEST_16).astype("float16"))
        scales = np.abs(weight).max(axis=axis, keepdims=True) / _LARGEST_8
        numbers = np.rint(weight / np.where(scales, scales, 1))
        return cls(numbers.astype("int8"), scales.astype("float32"))


class _Kept(NamedTuple):
    """The variables of `Numbers`."""

    numbers: keras.Variable
    scales: keras.Variable | None

    @classmethod
    def by(cls, layer: Layer, name: str, weight: Numbers) -> _Kept:
        scales = None if weight.scales is None else _add(layer, f"{name}_scales", weight.scales)
        return cls(_add(layer, name, weight.numbers), scales)

    def rows(self, ids: Tensor) -> Tensor:
        rows = ops.cast(rows_at(self.numbers, ids), "float32")
        return rows if self.scales is None else rows * rows_at(self.scales, ids)

    def whole(self) -> Tensor:
        values = ops.cast(self.numbers, "float32")
        return values if self.scales is None else values * self.scales


def _small(embedding: Any, storage: Storage) -> Any:
    """The embedding of a model, or those of the members of an ensemble, in fewer bits."""
    if isinstance(embedding, EnsembleEmbedding):
        parts = [_small(one, storage) for one in embedding.embeddings]
        return EnsembleEmbedding(embedding.schema, parts)
    return SmallEmbedding(embedding, storage)


class SmallEmbedding(FeatureEmbedding):
    """A `FeatureEmbedding` with the tables of another one in fewer bits."""

    def __init__(self, embedding: FeatureEmbedding, storage: Storage) -> None:
        super().__init__(**embedding.get_config())
        self._storage: Storage = storage
        self._values = {weight.name: ops.convert_to_numpy(weight) for weight in embedding.weights}
        self._kept: dict[str, _Kept] = {}

    def build(self, input_shape: Shape | None = None) -> None:
        super().build(input_shape)
        for weight in self.weights:
            if weight.name in self._values:
                weight.assign(self._values.pop(weight.name))

    def add_table(self, table: Table) -> Any:
        numbers = Numbers.of(self._values.pop(table.name), self._storage, axis=-1)
        return _Kept.by(self, f"{self._storage}_{table.name}", numbers)

    def rows(self, table: Any, ids: Tensor) -> Tensor:
        return table.rows(ids)


class SmallTower(Layer):
    """A tower with its matrices in fewer bits.

    Each call runs the trained tower with its weights replaced. It belongs to a function and not to
    this layer, so that its own float32 weights are neither counted nor exported. What this layer
    does not define is that of the trained tower.
    """

    def __init__(self, tower: Any, storage: Storage) -> None:
        super().__init__(name=tower.name)
        self._tower = lambda: tower
        self._storage: Storage = storage
        self._kept: list[_Kept] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Keras looks for some of its own before they are there
            raise AttributeError(name)
        return getattr(self._tower(), name)

    def build(self, input_shape: Shape | None = None) -> None:
        self.built = True
        for number, weight in enumerate(self._tower().weights):
            value = ops.convert_to_numpy(weight)
            numbers = (
                Numbers(value) if value.ndim < 2 else Numbers.of(value, self._storage, axis=-2)
            )
            self._kept.append(_Kept.by(self, f"{number}_{weight.name}", numbers))

    def call(self, embedded: Mapping[str, Any], explain: bool = False) -> Any:
        tower = self._tower()
        values = (weight.whole() for weight in self._kept)
        with keras.StatelessScope(list(zip(tower.weights, values, strict=True))):
            return tower(embedded, explain=True) if explain else tower(embedded)


def _add(layer: Layer, name: str, values: np.ndarray) -> keras.Variable:
    return layer.add_weight(
        shape=values.shape,
        dtype=values.dtype.name,
        initializer=lambda shape, dtype=None: ops.convert_to_tensor(values, dtype),
        trainable=False,
        autocast=False,
        name=name,
    )
