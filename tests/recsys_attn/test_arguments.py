"""Every number, list of sizes and switch that a part takes is checked when the part is made."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest

import recsys_attn
from recsys_attn import models
from recsys_attn.attention import MultiHeadAttention, patterns, presets
from recsys_attn.blocks import TransformerBlock, TransformerDecoderBlock, TransformerEncoder
from recsys_attn.id_transforms import Age
from recsys_attn.interactions import TargetAttention
from recsys_attn.models import building_blocks
from recsys_attn.schema import Categorical, Schema, Sequence, Task

FOLDERS = ("attention", "blocks", "interactions", "models", "multitask")
SCHEMA = Schema((Categorical("item", size=7), Sequence("seen", shares="item")), (Task("click"),))
AGES = Sequence("ages", dtype="int64", transform=Age())
ORDERED = Schema(SCHEMA.features, (Task("click"), Task("buy")))
WITH_AGES = Schema((*SCHEMA.features, AGES), SCHEMA.tasks)
WRONG: dict[str, list[Any]] = {
    "bool": ["no", 1, None],
    "int": [True, 2.5, "3", -1],
    "float": ["0.5", True, None, math.nan, math.inf],
    "Sequence[int]": [3, None, "ab", ["x"], [True], [0]],
}
# The models' options, whose annotations a TOML file is checked by.
WRONG |= {"Count": WRONG["int"], "Share": WRONG["float"], "Factor": WRONG["float"]}
WRONG |= {"Sizes": WRONG["Sequence[int]"]}
# What cannot be left out, of one part or of all.
NEEDED: dict[str, Callable[[], Any]] = {
    "FactorizedDense.units": lambda: 4,
    "FeedForward.units": lambda: 4,
    "MaskBlock.units": lambda: 4,
    "InterestHistory.attention": TargetAttention,
    "TransformerDecoder.blocks": lambda: [TransformerDecoderBlock(causal(), causal())],
    "TransformerDecoderBlock.attention": lambda: causal(),
    "attention": lambda: MultiHeadAttention(2, 4),
    "before": lambda: 3,
    "blocks": lambda: [TransformerBlock(MultiHeadAttention(2, 4))],
    "clusters": lambda: 2,
    "compressor": lambda: "pool",
    "compressors": lambda: ["pool"],
    "count": lambda: 2,
    "cross_attention": lambda: MultiHeadAttention(2, 4),
    "dilation": lambda: 2,
    "encoder": lambda: TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 4))]),
    "condition_size": lambda: 3,
    "esmm.schema": lambda: ORDERED,
    "aitm.schema": lambda: ORDERED,
    "pepnet.domain": lambda: ["item"],
    "features": lambda: 8,
    "head": lambda: building_blocks.TaskHeads(["click"]),
    "head_dim": lambda: 4,
    "histories": dict,
    "history": TargetAttention,
    "interaction": building_blocks.FieldInteraction,
    "kind": lambda: TransformerBlock,
    "length": lambda: 10,
    "max_distance": lambda: 8,
    "num_experts": lambda: 2,
    "num_heads": lambda: 2,
    "num_tasks": lambda: 2,
    "pattern": patterns.Causal,
    "patterns": lambda: [patterns.Causal()],
    "position_width": lambda: 4,
    "positions": lambda: (0,),
    "rank": lambda: 3,
    "router": lambda: "lsh",
    "schema": lambda: SCHEMA,
    "scores": lambda: ["dot"],
    "size": lambda: 4,
    "mechanisms": lambda: ["local", "bigbird"],
    "make": lambda: keras.layers.GRU,
    "memory": lambda: 3,
    "SessionHistory.units": lambda: 4,
    "SessionInterests.units": lambda: 4,
    "dsin.schema": lambda: WITH_AGES,
    "han.schema": lambda: WITH_AGES,
    "stride": lambda: 2,
    "summaries": lambda: 2,
    "summary": lambda: 1,
    "tasks": lambda: ["click"],
    "units": lambda: (4,),
    "width": lambda: 4,
    "window": lambda: 4,
    "sizes": lambda: (4, 3),
}


def causal() -> MultiHeadAttention:
    return MultiHeadAttention(2, 4, "transformer_xl")


KINDS = (keras.layers.Layer, patterns.Pattern)
TOGETHER = {"num_heads", "head_dim"}  # both or neither
# Valid values of these: any integer as a seed, and 0 as a token, a head or a field.
FREE = {f"{name}-seed--1" for name in ("Blocks", "RandomBlocks", "bigbird")}
FREE |= {"longformer-tokens-[0]", "Blocks-tokens-[0]", "InteractingLayer-kept_heads-[0]"}
FREE |= {"ContextGate-context-[0]"}


def parts() -> Iterator[Callable[..., Any]]:
    """Layers and patterns of the folders, presets and models."""
    for module in pkgutil.walk_packages(recsys_attn.__path__, "recsys_attn."):
        if module.name.split(".")[1] in FOLDERS:
            for name, part in vars(importlib.import_module(module.name)).items():
                own = getattr(part, "__module__", None) == module.name and name[0] != "_"
                if own and inspect.isclass(part) and issubclass(part, KINDS):
                    yield part
    yield from presets.PRESETS.values()
    yield from models.MODELS.values()


def wrong_values(part: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Names of arguments, each with a value that it does not take."""
    return [
        (parameter.name, wrong)
        for parameter in inspect.signature(part).parameters.values()
        for wrong in WRONG.get(str(parameter.annotation).removesuffix(" | None"), [])
        if f"{part.__name__}-{parameter.name}-{wrong}" not in FREE
        and not (wrong is None and str(parameter.annotation).endswith("None"))
    ]


def needed(part: Callable[..., Any]) -> dict[str, Any]:
    names = [
        parameter.name
        for parameter in inspect.signature(part).parameters.values()
        if parameter.name in TOGETHER
        or f"{part.__name__}.{parameter.name}" in NEEDED
        or (parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD)
    ]
    return {name: (NEEDED.get(f"{part.__name__}.{name}") or NEEDED[name])() for name in names}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "part", list(filter(wrong_values, parts())), ids=lambda part: part.__name__
)
def test_another_kind_of_value_is_one_sentence(part: Callable[..., Any]) -> None:
    for name, wrong in wrong_values(part):
        received = wrong[0] if isinstance(wrong, list) else wrong
        end = rf"Received: {name}(\[0\])?={re.escape(repr(received))}$"
        sentence = rf"`{name}(\[0\])?` must .*{end}"
        if hasattr(part, "__wrapped__"):  # checked by its annotations
            sentence = rf"^`{name}`: expected .* Received: {re.escape(repr(wrong))}$"
        with pytest.raises(ValueError, match=sentence):
            part(**{**needed(part), name: wrong})
