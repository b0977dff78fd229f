"""The eager loop that all PyTorch peers train in: dense Adam, as in their own trainers.

What each cannot express, and what differs from ours:

- FuxiCTR: heads of any size; no residual weights where a layer keeps the width. DeepFM's linear
  weights are tables of their own. Its layers have neither a GRU with attention nor experts of a
  task, which are parts of its model zoo: no DIEN and no PLE.
- DeepCTR-Torch: AutoInt's heads share the width of the embedding; ids travel as float32; the last
  network of DIN and DIEN has ReLU, for Dice fails there. DeepFM's linear weights are tables of
  their own. DIEN's attention is an activation unit of 80-40, where all others have the paper's
  bilinear form. PLE makes as many shared experts as own ones of a task, and its last layer has a
  shared gate, which nothing reads.
- torch-rechub: AutoInt's heads share the width of the embedding, and a linear part is added;
  every MLP has batch normalisation, a gate too; Dice compares the units of a row, not the rows
  of a unit; DIN does not mask padding. DeepFM looks each field up twice, and its linear part is a
  layer over the embeddings. DIEN looks its negatives up even where there is no loss.

No DIEN has its auxiliary loss, for each takes other negatives. MLPs of fields have neither batch
normalisation nor dropout, but for torch-rechub's.

Their tables are one `nn.Embedding` for each field, whose gradient and Adam are as large as the
table. What their own trainers do besides (regularizers, clipping, metrics of each batch) is left
out, so that only the step is timed. Ours on TensorFlow keep the default `embeddings_l2`, which
lowers their AUC in the first steps: after 60 by up to 0.02.

glibc gives PyTorch's larger tensors fresh pages in every step. A state of DIEN at a batch of 1024
is just large enough, and the page faults can take most of a step. With
`MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296` in the environment the pages
are kept, and the speed is that of the computation alone.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.peers.data import Batch
from benchmarks.peers.settings import Settings

Inputs = Callable[[dict[str, torch.Tensor]], Any]


def pretend(*modules: str) -> None:
    """Empty modules in place of those that a peer imports and its layers do not use."""
    sys.modules.update({name: types.ModuleType(name) for name in modules})


class EagerLoop:
    """A peer's model, called with what `inputs` makes of ids by feature name.

    Args:
        settings: How to train.
        make: Makes the model, which gives probabilities `(B,)` or `(B, tasks)`.
        inputs: Makes the model's argument.
    """

    def __init__(
        self,
        settings: Settings,
        make: Callable[[Settings], torch.nn.Module],
        inputs: Inputs = lambda ids: ids,
    ) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.settings, self.inputs = settings, inputs
        self.model = make(settings).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=settings.learning_rate)

    def step(self, batch: Batch) -> float:
        self.model.train()
        self.optimizer.zero_grad()
        labels = torch.from_numpy(batch.labels[:, 0]).to(self.device)
        losses = functional.binary_cross_entropy(self._forward(batch), labels, reduction="none")
        loss = losses.mean(dim=0).sum()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def scores(self, batch: Batch) -> np.ndarray:
        self.model.eval()
        with torch.no_grad():
            return self._forward(batch).cpu().numpy()

    def _forward(self, batch: Batch) -> torch.Tensor:
        low = self.settings.precision == "mixed_bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=low):
            probabilities = self.model(self.inputs(self._ids(batch)))
        return probabilities.float().reshape(len(batch), -1)

    def _ids(self, batch: Batch) -> dict[str, torch.Tensor]:
        """By feature name, `(B,)`, and the history `(B, S)`."""
        candidate = torch.from_numpy(batch.candidate[:, 0]).to(self.device)
        if batch.context is None:
            return {f"c{i}": candidate[:, i] for i in range(candidate.shape[1])}
        context = torch.from_numpy(batch.context).to(self.device)
        return {"user": context[:, 0], "item": candidate[:, 0], "seen": context[:, 1:]}

    def memory(self) -> Mapping[str, float]:
        slots = (v for state in self.optimizer.state.values() for v in state.values())
        sizes = {"weights": _bytes(self.model.parameters()), "slots": _bytes(slots)}
        if self.device.type == "cuda":
            sizes["device"] = float(torch.cuda.max_memory_allocated())
        return sizes


def _bytes(tensors: Any) -> float:
    return float(sum(t.numel() * t.element_size() for t in tensors))
