"""Each attention of a model has a place."""

from recsys_attn.attention import HeadsCall
from recsys_attn.embeddings import example_inputs
from recsys_attn.models import RankingModel, attention_ranker, autoint, mlp
from recsys_attn.models.attention_places import AttentionPlace, watch_attention
from recsys_attn.schema import Categorical, Schema, Sequence, Task

SCHEMA = Schema(
    (
        Categorical("user", "context", size=9),
        Categorical("item", size=7),
        Sequence("seen", shares="item", max_length=6),
    ),
    (Task("click"), Task("buy")),
)


def places(model: RankingModel) -> list[tuple[str, tuple[int, ...]]]:
    found = []

    def visit(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
        found.append((str(place), tuple(call.output.shape[:3])))
        return call

    with watch_attention(model, visit):
        model(example_inputs(model.schema, batch=2, candidates=3))
    return found


def test_attention_ranker_has_attention_in_every_place() -> None:
    model = attention_ranker(
        SCHEMA,
        encoder={"name": "transformer", "num_layers": 2},
        target_attention={"name": "transformer", "num_heads": 2},
        interaction={"num_layers": 1},
        experts={"number": 3},
    )
    assert places(model) == [
        ("encoder 1 of history", (2, 6, 2)),
        ("encoder 2 of history", (2, 6, 2)),
        ("target attention of history", (2, 3, 2)),
        ("interaction 1", (6, 3, 2)),
        ("gate", (6, 2, 1)),
    ]


def test_a_shared_layer_is_numbered_by_its_calls() -> None:
    shared = {"class_name": "block", "config": {"attention": "transformer", "groups": 1}}
    model = attention_ranker(SCHEMA, encoder={"name": shared, "num_layers": 2})
    assert len(model.tower.histories["history"].encoder.blocks) == 1
    assert [name for name, _ in places(model)][:2] == [
        "encoder 1 of history",
        "encoder 2 of history",
    ]


def test_a_model_without_attention_has_none() -> None:
    schema = Schema((Categorical("item", size=7),), (Task("click"),))
    assert places(mlp(schema)) == []
    assert [name for name, _ in places(autoint(schema, interaction={"num_layers": 1}))] == [
        "interaction 1"
    ]
