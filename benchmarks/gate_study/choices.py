"""What the gates of a trained model do: how they choose, and between what."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from keras import ops

from pipelines.audit.experts import apart, task_gates
from pipelines.audit.redundancy import cka
from recsys_attn.models import RankingModel


def choices(model: RankingModel, inputs: Mapping[str, Any]) -> dict[str, float]:
    """Returns numbers about the gates of an MMoE, means over tasks or pairs.

    `entropy` is that of a row's shares in units of equal ones; `by row` and `by task` are half the
    sum of the absolute differences of shares, to their mean over rows and between two tasks;
    `alike` is the CKA of the outputs of two experts; `logits` is the deviation of a row's logits;
    `queries` is the cosine of two tasks' queries, of attention alone.

    Args:
        model: The model.
        inputs: Rows.
    """
    vector, _ = model.tower.vector(model.embedding(inputs))
    mixture = model.tower.head.experts
    _, gates = mixture(vector, return_gates=True)
    experts = mixture.experts(ops.reshape(vector, (-1, vector.shape[-1])))
    shares = np.moveaxis(ops.convert_to_numpy(gates)[:, 0], 1, 0)  # (tasks, rows, experts)
    rows = np.arange(shares.shape[1])
    of_tasks = [task_gates(of_task, rows) for of_task in shares]
    likeness = cka(ops.convert_to_numpy(experts).astype(np.float64))
    numbers = {
        "entropy": np.mean([task.spread for task in of_tasks]),
        "by row": np.mean([task.variation for task in of_tasks]),
        "by task": np.mean([apart(one, other) for one, other in combinations(shares, 2)]),
        "alike": np.mean(likeness[np.triu_indices(len(likeness), 1)]),
        "logits": np.log(shares + 1e-9).std(axis=-1).mean(),
    }
    if mixture.attention_gate is not None:
        queries = ops.convert_to_numpy(mixture.attention_gate.queries)
        unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        numbers["queries"] = np.mean([one @ other for one, other in combinations(unit, 2)])
    return {name: round(float(value), 4) for name, value in numbers.items()}
