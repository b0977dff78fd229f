"""Names of models and of their arguments, read without an import of Keras."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

# Names of papers whose model is an option of another one's function.
OTHER_NAMES = {
    "autoint+": "'autoint' with `mlp_units`",
    "cgc": "'ple' with `experts = { num_layers = 1 }`",
    "dcn_v2": "'dcn'",
    "dnn": "'mlp'",
    "dualmlp": "'finalmlp' with `feature_gates = { active = false }`",
    "fwfm": "'fm' with `pair_weights = true`",
    "gdcn": "'dcn' with `cross = { gated = true }`",
    "lr": "'logistic_regression'",
    "omoe": "'mmoe' with `one_gate = true`",
    "ppnet": "'pepnet' with `person` alone",
    "shared_bottom": "'mlp' with `tower_units`",
}

# Arguments of older versions that are keys of a table now; the first table that a model has.
NEW_KEYS = {
    "attention_dropout": ("interaction.dropout",),
    "balance": ("experts.balance",),
    "cross_experts": ("cross.num_experts",),
    "cross_layers": ("cross.num_layers",),
    "encoder_context": ("encoder.context",),
    "encoder_head_dim": ("encoder.head_dim",),
    "encoder_heads": ("encoder.num_heads",),
    "encoder_layers": ("encoder.num_layers",),
    "encoder_positions": ("encoder.positions",),
    "expert_units": ("experts.units",),
    "first_context": ("feature_gates.first",),
    "gate_attention": ("experts.gate_attention",),
    "gate_units": ("experts.gate_units", "feature_gates.units"),
    "gated": ("cross.gated", "feature_gates.active"),
    "head_dim": ("interaction.head_dim",),
    "mechanism": ("interaction.name",),
    "num_experts": ("experts.number",),
    "num_heads": ("interaction.num_heads",),
    "num_layers": ("interaction.num_layers", "experts.num_layers"),
    "rank": ("cross.rank",),
    "scale": ("interaction.scale",),
    "second_context": ("feature_gates.second",),
    "shared_experts": ("experts.shared",),
    "target_head_dim": ("target_attention.head_dim",),
    "target_heads": ("target_attention.num_heads",),
    "task_experts": ("experts.task",),
    "update": ("interaction.update",),
}

_MODELS = Path(__file__).parent / "models"


Keys = dict[str, "Keys | None"]


def new_key(key: str, value: Any, tables: Mapping[str, Collection[str]], path: str = "") -> str:
    """Returns the sentence about an argument that is a key of a table now; "" for another one.

    Args:
        key: Name of the argument.
        value: Its value.
        tables: The arguments of the model, each with the keys of its table.
        path: Name of the table of `key` in a file, with a dot.
    """
    for place in NEW_KEYS.get(key, ()):
        table, _, name = place.partition(".")
        if name in tables.get(table, ()):
            return f"`{path}{key}` is now `{table} = {{ {name} = {_toml(value)} }}`."
    return ""


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, default=repr, ensure_ascii=False)


def arguments_by_model() -> dict[str, Keys]:
    """Returns the arguments of each built-in model besides the schema, as its file declares them.

    Each has the keys of its table, or None.

    >>> from recsys_attn.model_names import arguments_by_model
    >>> arguments = arguments_by_model()["din"]
    >>> "hidden_units" in arguments, "mlp_units" in arguments
    (False, True)
    >>> list(arguments["target_attention"])
    ['name', 'num_heads', 'head_dim']
    """
    tables = _tables()
    names: dict[str, Keys] = {}
    for file in sorted(_MODELS.glob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "@MODELS.register(" in source:
            names |= dict(_declared(ast.parse(source), tables))
    return names


def _declared(module: ast.Module, tables: Mapping[str, Keys]) -> Iterator[tuple[str, Keys]]:
    for function in module.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "MODELS.register":
                arguments = function.args.kwonlyargs
                keys = {key.arg: _table_in(key.annotation, tables) for key in arguments}
                yield ast.literal_eval(decorator.args[0]), keys


def _tables() -> dict[str, Keys]:
    """Returns the keys of each table by the name of its type."""
    classes: dict[str, Keys] = {}
    types: dict[str, Keys] = {}
    module = ast.parse((_MODELS / "option_tables.py").read_text(encoding="utf-8"))
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            keys: Keys = {}
            for base in statement.bases:
                keys |= classes.get(ast.unparse(base), {})
            for field in statement.body:
                if isinstance(field, ast.AnnAssign):
                    keys[ast.unparse(field.target)] = _table_in(field.annotation, types)
            classes[statement.name] = keys
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Subscript):
            name = ast.unparse(statement.value.slice).rpartition(" ")[2]  # of Annotated[Any, name]
            types[ast.unparse(statement.target)] = classes[name.rstrip(")")]
    return types


def _table_in(annotation: ast.expr | None, tables: Mapping[str, Keys]) -> Keys | None:
    names = ast.unparse(annotation).split(" | ") if annotation else []
    return next((tables[name] for name in names if name in tables), None)
