"""Models of FuxiCTR's layers, put together as its model zoo does.

Of the zoo itself the package has only some models of long histories, which bring the loading of
their data. Weights begin as its models' do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.peers import settings as sizes
from benchmarks.peers.contender import run
from benchmarks.peers.fuxictr_interactions import FLAT, AutoInt, DcnV2, DeepFm
from benchmarks.peers.fuxictr_layers import (
    DIN_Attention,
    Ids,
    MLP_Block,
    embedding,
    embedding_of_fields,
)
from benchmarks.peers.settings import Settings
from benchmarks.peers.torch_loop import EagerLoop


class Din(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width, rows = sizes.HISTORY_WIDTH, settings.table_rows
        self.embedding = embedding({"user": rows, "item": rows}, width)
        units = list(sizes.ATTENTION_UNITS)
        self.attention = DIN_Attention(width, units, hidden_activations="Dice")
        self.mlp = MLP_Block(3 * width, list(sizes.MLP_UNITS), "Dice", output_dim=1)

    def forward(self, ids: Ids) -> torch.Tensor:
        vectors = self.embedding.embedding_layer(ids)
        user, item, seen = vectors["user"], vectors["item"], vectors["seen"]
        interest = self.attention(item, seen, ids["seen"] != 0)
        return self.mlp(torch.cat([user, item, interest], dim=-1)).float().sigmoid()


class MMoE(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.embedding = embedding_of_fields(settings)
        width, units = FLAT, list(sizes.EXPERT_UNITS)
        tasks = range(len(settings.tasks))
        self.experts = nn.ModuleList(MLP_Block(width, units) for _ in range(sizes.EXPERTS))
        self.gates = nn.ModuleList(MLP_Block(width, output_dim=sizes.EXPERTS) for _ in tasks)
        self.towers = nn.ModuleList(
            MLP_Block(units[-1], list(sizes.TOWER_UNITS), output_dim=1) for _ in tasks
        )

    def forward(self, ids: Ids) -> torch.Tensor:
        x = self.embedding(ids).flatten(1)
        experts = torch.stack([expert(x) for expert in self.experts], dim=1)
        logits = []
        for gate, tower in zip(self.gates, self.towers, strict=True):
            weights = gate(x).softmax(dim=-1)
            logits.append(tower((weights.unsqueeze(-1) * experts).sum(dim=1)))
        return torch.cat(logits, dim=-1).float().sigmoid()


MODELS: dict[str, Callable[[Settings], nn.Module]] = {
    "autoint": AutoInt,
    "autoint8": AutoInt,
    "dcnv2": DcnV2,
    "deepfm": DeepFm,
    "din": Din,
    "mmoe": MMoE,
}


def make(settings: Settings) -> nn.Module:
    """The model, its weights as FuxiCTR's models draw them."""
    model = MODELS[settings.model](settings)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


if __name__ == "__main__":
    run(lambda settings: EagerLoop(settings, make))
