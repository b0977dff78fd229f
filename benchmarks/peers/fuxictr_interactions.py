"""AutoInt, DCN-V2 and DeepFM of FuxiCTR's layers, put together as its model zoo does."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.peers import settings as sizes
from benchmarks.peers.fuxictr_layers import (
    CrossNetV2,
    FactorizationMachine,
    Ids,
    MLP_Block,
    ScaledDotProductAttention,
    embedding_of_fields,
    feature_map,
    fields,
)
from benchmarks.peers.settings import Settings

FLAT = sizes.FIELDS * sizes.WIDTH


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
        self.embedding = embedding_of_fields(settings)
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


class DcnV2(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.embedding = embedding_of_fields(settings)
        self.cross = CrossNetV2(FLAT, sizes.CROSS_LAYERS)
        self.mlp = MLP_Block(FLAT, list(sizes.DEEP_UNITS))
        self.logit = nn.Linear(FLAT + sizes.DEEP_UNITS[-1], 1)

    def forward(self, ids: Ids) -> torch.Tensor:
        x = self.embedding(ids, flatten_emb=True)
        return self.logit(torch.cat([self.cross(x), self.mlp(x)], dim=-1)).float().sigmoid()


class DeepFm(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.embedding = embedding_of_fields(settings)
        self.fm = FactorizationMachine(feature_map(fields(settings)))
        self.mlp = MLP_Block(FLAT, list(sizes.DEEP_UNITS), output_dim=1)

    def forward(self, ids: Ids) -> torch.Tensor:
        x = self.embedding(ids)
        return (self.fm(ids, x) + self.mlp(x.flatten(1))).float().sigmoid()
