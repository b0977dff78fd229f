"""The exported module: fitted transforms and model in one graph that takes raw values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from pipelines.export.raw_inputs import EXPLAINED_SIGNATURE, RANK_SIGNATURE, ROWS_SIGNATURE
from pipelines.export.signatures import EXAMPLES_SIGNATURE, WITH_CONTEXT, classify_output, ranks
from pipelines.export.tf_examples import of_side, parse_examples
from pipelines.features import FittedFeatures
from pipelines.features.graph import FeatureGraph, raw_dtype
from recsys_attn.models import RankingModel
from recsys_attn.schema import Feature, is_listed

_CLASSES = ("0", "1")


class ServingModule(tf.Module):
    """The model's signatures for rows and for requests, of raw tensors and serialized Examples.

    `serving_default` takes every feature as rows `(B,)` and returns `(B,)` for each task. `rank`
    takes the context as `(B,)` and candidates as `(B, N)` and returns `(B, N)` for each task; the
    context is looked up and encoded once. Lists have one more axis. Inputs are named after the
    features, outputs after the tasks. `rank_explained` adds the outputs of
    `RankingModel.explain`, if there are any; weights of events are in the order of the input.

    `examples` takes rows as serialized Examples `(B,)`. `examples_with_context` takes one Example
    of the context `(1,)` and one for each candidate `(N,)`, and returns `(N,)` for each task. A
    candidate feature in the context's Example is the default of all candidates; a context feature
    in a candidate's Example is ignored. Both also return `classes` and `scores` of binary tasks,
    `(B, 2)`.

    Features of the item table are no inputs: the module holds them and finds them by the item's id.

    The model is traced for rows and for requests; the signatures of Examples call these two.
    """

    def __init__(self, model: RankingModel, fitted: FittedFeatures) -> None:
        super().__init__()
        self.features = FeatureGraph(fitted)
        self.model_variables = [variable.value for variable in model.variables]
        self._schema = fitted.raw_schema
        self._model = model.probabilities
        self._explain = model.explain
        self._explains = bool(model.explanations)

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by signature name."""
        rows = concrete(self._rows, self.raw_specs(per_request=False))
        functions = {ROWS_SIGNATURE: rows, EXAMPLES_SIGNATURE: self._examples(rows)}
        if ranks(self._schema):
            specs = self.raw_specs(per_request=True)
            rank = concrete(self._rank, specs)
            functions[RANK_SIGNATURE] = rank
            functions[EXAMPLES_SIGNATURE + WITH_CONTEXT] = self._examples_with_context(rank)
            if self._explains:
                functions[EXPLAINED_SIGNATURE] = concrete(self._explained, specs)
        return functions

    def _rows(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = {
            feature.name: raw[feature.name][:, None]
            if feature.side == "candidate"
            else raw[feature.name]
            for feature in self._schema.features
        }
        return {task: scores[:, 0] for task, scores in self._rank(**inputs).items()}

    def _rank(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._model(self.features(raw))

    def _explained(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        events = self.features.events(raw)
        probabilities, explanation = self._explain(self.features.inputs(raw, events))
        return {**probabilities, **self.features.as_sent(explanation, events)}

    def _examples(self, rows: Any) -> Any:
        def examples(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            raw = parse_examples(self._schema.features, inputs)
            return self._with_classes(rows(**raw), tf.size(inputs))

        return concrete(examples, {"inputs": tf.TensorSpec([None], tf.string)})

    def _examples_with_context(self, rank: Any) -> Any:
        def examples_with_context(context: tf.Tensor, examples: tf.Tensor) -> dict[str, tf.Tensor]:
            raw = parse_examples(of_side(self._schema, "context"), context)
            # Concatenated serialized messages are merged; later values win.
            merged = tf.strings.join([context[0], examples])
            candidates = parse_examples(of_side(self._schema, "candidate"), merged)
            raw |= {name: values[None] for name, values in candidates.items()}
            scores = {task: p[0] for task, p in rank(**raw).items()}
            return self._with_classes(scores, tf.size(examples))

        specs = {
            "context": tf.TensorSpec([1], tf.string),
            "examples": tf.TensorSpec([None], tf.string),
        }
        return concrete(examples_with_context, specs)

    def _with_classes(
        self, scores: Mapping[str, tf.Tensor], rows: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        # The number of rows comes from the request: a runtime may compute the scores elsewhere.
        outputs = dict(scores)
        for task in self._schema.tasks:
            if task.kind == "binary":
                p = scores[task.name]
                classes = tf.tile([_CLASSES], tf.stack([rows, 1]))
                outputs[classify_output(task.name, "classes")] = classes
                outputs[classify_output(task.name, "scores")] = tf.stack([1 - p, p], axis=1)
        return outputs

    def raw_specs(self, per_request: bool) -> dict[str, tf.TensorSpec]:
        """The inputs of rows, or of requests."""
        return {
            feature.name: tf.TensorSpec(raw_shape(feature, per_request), raw_dtype(feature))
            for feature in self._schema.features
        }


def raw_shape(feature: Feature, per_request: bool) -> list[None]:
    """The shape of a raw tensor in rows, or in requests."""
    return [None] * (1 + is_listed(feature) + (per_request and feature.side == "candidate"))


def concrete(function: Callable[..., Any], specs: Mapping[str, tf.TensorSpec]) -> Any:
    """Returns a function of named tensors as a concrete one."""
    named = {name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in specs.items()}
    return tf.function(function, autograph=False).get_concrete_function(**named)
