"""Names of models and of their arguments, read without an import of Keras."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# Names of papers whose model is an option of another one's function.
OTHER_NAMES = {
    "autoint+": "'autoint' with `mlp_units`",
    "cgc": "'ple' with `num_layers = 1`",
    "dcn_v2": "'dcn'",
    "dnn": "'mlp'",
    "dualmlp": "'finalmlp' with `gated = false`",
    "fwfm": "'fm' with `pair_weights = true`",
    "gdcn": "'dcn' with `gated = true`",
    "lr": "'logistic_regression'",
    "omoe": "'mmoe' with `one_gate = true`",
    "ppnet": "'pepnet' with `person` alone",
    "shared_bottom": "'mlp' with `tower_units`",
}

_MODELS = Path(__file__).parent / "models"


def arguments_by_model() -> dict[str, list[str]]:
    """Returns the arguments of each built-in model besides the schema, as its file declares them.

    >>> from recsys_attn.model_names import arguments_by_model
    >>> "hidden_units" in arguments_by_model()["din"]
    False
    >>> "mlp_units" in arguments_by_model()["din"]
    True
    """
    names: dict[str, list[str]] = {}
    for file in sorted(_MODELS.glob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "@MODELS.register(" in source:
            names |= dict(_declared(ast.parse(source)))
    return names


def _declared(module: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for function in module.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "MODELS.register":
                arguments = [argument.arg for argument in function.args.kwonlyargs]
                yield ast.literal_eval(decorator.args[0]), arguments
