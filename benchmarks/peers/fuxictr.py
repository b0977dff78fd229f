"""AutoInt, DIN and MMoE of FuxiCTR's layers, put together as its model zoo does.

The zoo itself is not in the package. Weights begin as its models' do.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch
from torch import nn

from benchmarks.peers import settings as sizes
from benchmarks.peers.contender import run
from benchmarks.peers.settings import Settings
from benchmarks.peers.torch_loop import EagerLoop, pretend

# The layers import the preparation of data, which needs Ray, for pretrained tables alone.
pretend("fuxictr.preprocess", "fuxictr.preprocess.tokenizer")
sys.modules["fuxictr.preprocess.tokenizer"].load_pretrain_emb = None

from fuxictr.pytorch.layers import (  # noqa: E402
    DIN_Attention,
    FeatureEmbedding,
    MLP_Block,
    ScaledDotProductAttention,
)

Ids = dict[str, torch.Tensor]


def embedding(rows: dict[str, int], width: int) -> FeatureEmbedding:
    """A table for each feature."""
    features = {
        name: {"type": "categorical", "source": "", "vocab_size": size}
        for name, size in rows.items()
    }
    if "item" in features:
        features["seen"] = {"type": "sequence", "source": "", "share_embedding": "item"}
    return FeatureEmbedding(SimpleNamespace(features=features), width)


class SelfAttention(nn.Module):
    """An interacting layer around FuxiCTR's attention."""

    def __init__(self, before: int, heads: int, head_dim: int) -> None:
        super().__init__()
        width = heads * head_dim
        self.shape = heads, head_dim
        self.query, self.key, self.value = (nn.Linear(before, width, bias=False) for _ in "qkv")
        self.residual = nn.Identity() if before == width else nn.Linear(before, width, bias=False)
        self.attention = ScaledDotProductAttention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, self.shape).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        output, _ = self.attention(q, k, v)
        return (output.transpose(1, 2).flatten(-2) + self.residual(x)).relu()


class AutoInt(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.embedding = embedding(_fields(settings), sizes.WIDTH)
        head_dim = sizes.HEAD_DIMS[settings.model]
        width = sizes.HEADS * head_dim
        self.layers = nn.Sequential(
            *(
                SelfAttention(before, sizes.HEADS, head_dim)
                for before in (sizes.WIDTH, *[width] * (sizes.LAYERS - 1))
            )
        )
        self.logit = nn.Linear(sizes.FIELDS * width, 1)

    def forward(self, ids: Ids) -> torch.Tensor:
        return self.logit(self.layers(self.embedding(ids)).flatten(1)).float().sigmoid()


class Din(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width, rows = sizes.HISTORY_WIDTH, settings.table_rows
        self.embedding = embedding({"user": rows, "item": rows}, width)
        units = list(sizes.ATTENTION_UNITS)
        self.attention = DIN_Attention(width, units, hidden_activations="Dice")
        self.mlp = MLP_Block(3 * width, list(sizes.MLP_UNITS), "Dice", output_dim=1)

    def forward(self, ids: Ids) -> torch.Tensor:
        found = self.embedding.embedding_layer(ids)
        user, item, seen = found["user"], found["item"], found["seen"]
        interest = self.attention(item, seen, ids["seen"] != 0)
        return self.mlp(torch.cat([user, item, interest], dim=-1)).float().sigmoid()


class MMoE(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.embedding = embedding(_fields(settings), sizes.WIDTH)
        width, units = sizes.FIELDS * sizes.WIDTH, list(sizes.EXPERT_UNITS)
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


def make(settings: Settings) -> nn.Module:
    """The model, its weights as FuxiCTR's models draw them."""
    kinds = {"din": Din, "mmoe": MMoE}
    model = kinds.get(settings.model, AutoInt)(settings)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


def _fields(settings: Settings) -> dict[str, int]:
    return {f"c{i}": settings.table_rows for i in range(sizes.FIELDS)}


if __name__ == "__main__":
    run(lambda settings: EagerLoop(settings, make))
