"""The rules of the code's architecture: each takes sources and returns what breaks it.

A finding is `file:line: what is wrong and what to do`. The tables at the top are the rules;
`tests/test_architecture.py` holds the repository against them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Mapping

from tests.support.sources import Source, code_lines, own_arguments

# What each package may import besides the standard library and itself.
_IMPORTS = """
recsys_attn  keras numpy
pipelines    recsys_attn serving keras numpy tensorflow tensorflow_serving pyarrow
pipelines    pydantic click rich jinja2 matplotlib datasketches ray mlflow optuna scipy
pipelines    prometheus_client sklearn lightgbm threadpoolctl
serving      numpy tensorflow tensorflow_serving grpc grpc_health grpc_reflection google click rich
serving      starlette uvicorn prometheus_client pyarrow pydantic lmdb redis ml_dtypes opentelemetry
serving      confluent_kafka
"""
ALLOWED_IMPORTS: dict[str, frozenset[str]] = {}
for _package, *_targets in map(str.split, _IMPORTS.strip().splitlines()):
    ALLOWED_IMPORTS[_package] = ALLOWED_IMPORTS.get(_package, frozenset()).union(_targets)
SHARED = "serving.state"  # one implementation of features over time, offline and online
BACKEND = "recsys_attn.backend"  # the only place that knows which Keras backend runs
BACKEND_IMPORTS = frozenset({"tensorflow", "jax"})
# What a package imports in one place only: package, import, place.
ONE_PLACE = (
    ("pipelines", "ray", "pipelines.engines.ray"),  # an extra, loaded by name on demand
    ("pipelines", "mlflow", "pipelines.workflow.publish"),  # likewise
    ("pipelines", "optuna", "pipelines.tuning.study"),  # likewise
    ("pipelines", "lightgbm", "pipelines.baselines.trees"),  # likewise
    ("serving", "confluent_kafka", "serving.state.following.kafka"),  # likewise
    ("pipelines", "pipelines.engines.ray", "pipelines.engines.ray"),
    ("serving", "tensorflow.python", "serving.runtimes.tensorflow.private_api"),
)
# The slots of attention; each is chosen freely, so none knows another.
SLOTS = tuple(
    f"recsys_attn.attention.{slot}"
    for slot in ["scores", "patterns", "weightings", "feature_maps", "decays", "compressors"]
)
# The folders of a package from top to bottom: each imports only those below it. A package with no
# row yet is not held. A module beside the folders (`cli.py`) is a folder of its own.
FOLDER_ORDER: Mapping[str, str] = {
    "serving": "cli cli_output server proxy rest rpc observability inference batching models "
    "client runtimes encoding config common protos state",
    "pipelines": "__main__ cli calls tuning boards pretraining refresh workflow online outcomes "
    "prediction_log exported export training evaluation proposal experiment audit distributions "
    "baselines scoring feed features ingest items storage report engines metrics common",
    "recsys_attn": (
        "objectives models interactions multitask attention blocks optimizers embeddings losses "
        "initializers constant_factors backend layer registry serialization embedding_tables "
        "number_encodings schema loss_options id_transforms number_options options checks "
        "masked_mean random_integers field_factors tensors named_parts model_names lazy registered"
    ),
    "serving.state": "following online stores saved keyed past definitions columns errors",
    "recsys_attn.attention": (
        "layers disagreement positions presets mechanisms routers gates "
        "scores weightings feature_maps decays compressors patterns masks core"
    ),
}
# Import names that differ from the name of the distribution.
DISTRIBUTIONS: Mapping[str, str] = {
    "confluent_kafka": "confluent-kafka",
    "deepctr_torch": "deepctr-torch",
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "grpc_tools": "grpcio-tools",
    "ml_dtypes": "ml-dtypes",
    "mlflow": "mlflow-skinny",
    "opentelemetry": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "pytorch_lightning": "pytorch-lightning",
    "sklearn": "scikit-learn",
    "tensorflow_serving": "tensorflow-serving-api",
    "yaml": "pyyaml",
    "torch_rechub": "torch-rechub",
}

MAX_FILE_LINES = 400
USUAL_FILE_LINES = 250  # nine files in ten
MAX_FUNCTION_LINES = 60
MAX_ARGUMENTS = 8


def package_imports(source: Source) -> list[str]:
    """Imports go one way: each package imports only what its row of the table names."""
    allowed = ALLOWED_IMPORTS[source.package]
    if _within(source.module, BACKEND):
        allowed |= BACKEND_IMPORTS
    known = allowed | sys.stdlib_module_names | {source.package}
    names = ", ".join(sorted(allowed))
    return _imports(source, f"allowed here: {names}", lambda target: _top(target) not in known)


def lazy_serving(source: Source) -> list[str]:
    """`pipelines` imports `serving` inside functions, but for `serving.state`, which both need."""
    return [
        _finding(source, line, f"imports {target} at the top; import it inside the function")
        for target, line, inside_function in source.imports
        if source.package == "pipelines" and _top(target) == "serving" and not inside_function
        if not _within(target, SHARED)
    ]


def one_place(source: Source) -> list[str]:
    """Ray, and what has no public name in TensorFlow, are imported in one place."""
    return [
        finding
        for package, imported, place in ONE_PLACE
        if source.package == package and not _within(source.module, place)
        for finding in _imports(source, f"only {place} may", lambda t, i=imported: _within(t, i))
    ]


def independent_slots(source: Source) -> list[str]:
    """Scores, patterns, weightings, feature maps and compressors import none of each other."""
    if not any(_within(source.module, slot) for slot in SLOTS):
        return []
    others = [slot for slot in SLOTS if not _within(source.module, slot)]
    advice = "the slots of attention do not know each other"
    return _imports(source, advice, lambda target: any(_within(target, slot) for slot in others))


def folder_order(source: Source) -> list[str]:
    """Inside a package imports go one way: each folder imports only those below it."""
    findings = []
    for package, names in FOLDER_ORDER.items():
        folders = [f"{package}.{name}" for name in names.split()]
        own = next((i for i, one in enumerate(folders) if _within(source.module, one)), None)
        if own is not None:
            above = folders[:own]
            advice = f"a folder above {folders[own]}"
            findings += _imports(source, advice, lambda t, a=above: any(_within(t, x) for x in a))
        elif _within(source.module, package) and source.module != package:
            findings.append(_finding(source, 1, f"is in no folder of {package} in FOLDER_ORDER"))
    return findings


def names_from_their_module(source: Source, modules: Collection[str]) -> list[str]:
    """A name comes from its own module, not from an `__init__` above, which imports every part."""
    parts = source.module.split(".")
    above = {".".join(parts[:depth]) for depth in range(1, len(parts))}
    return _imports(
        source,
        "import it from the module that defines it",
        lambda target: (
            target in above or (target.rpartition(".")[0] in above and target not in modules)
        ),
    )


def declared_dependencies(source: Source, declared: Collection[str]) -> list[str]:
    """A third-party import names a distribution that pyproject.toml declares."""
    local = {"tests", "benchmarks", "docs", "experiments"}
    known = {*ALLOWED_IMPORTS, *local} | sys.stdlib_module_names
    return _imports(
        source,
        "pyproject.toml does not declare it",
        lambda target: (
            _top(target) not in known
            and DISTRIBUTIONS.get(_top(target), _top(target)) not in declared
        ),
    )


def file_sizes(sources: Collection[Source]) -> list[str]:
    """A file is at most 400 lines, and nine in ten are at most 250."""
    long = [source for source in sources if len(source.lines) > USUAL_FILE_LINES]
    too_many = len(long) > max(1, len(sources) // 10)
    share = f"{len(long)} of {len(sources)} files have more than {USUAL_FILE_LINES}, one in ten may"
    return [
        _finding(source, 1, f"{len(source.lines)} lines; {share if too_many else 'split it'}")
        for source in long
        if too_many or len(source.lines) > MAX_FILE_LINES
    ]


def function_sizes(source: Source) -> list[str]:
    """A function is at most 60 lines, its docstring not counted."""
    return [
        _finding(source, function.lineno, f"{function.name} has {code_lines(function)} lines")
        for function in source.functions
        if code_lines(function) > MAX_FUNCTION_LINES
    ]


def argument_counts(source: Source) -> list[str]:
    """A layer has at most eight arguments of its own; past that it is two parts."""
    return [
        _finding(source, method.lineno, f"{owner.name} has more than {MAX_ARGUMENTS} arguments")
        for owner in source.classes
        for method in owner.body
        if isinstance(method, ast.FunctionDef)
        and method.name == "__init__"
        and len(own_arguments(method)) > MAX_ARGUMENTS
    ]


def public_names(source: Source) -> list[str]:
    """A package's `__all__` names everything public in its `__init__`."""
    missing = sorted(source.public_names - set(source.all_names or ()))
    if not source.is_package or not missing:
        return []
    return [_finding(source, 1, f"__all__ lacks {missing}; code has a module of its own")]


def _imports(source: Source, advice: str, is_wrong: Callable[[str], bool]) -> list[str]:
    return [
        _finding(source, line, f"imports {target}; {advice}")
        for target, line, _ in source.imports
        if is_wrong(target)
    ]


def _finding(source: Source, line: int, text: str) -> str:
    return f"{source.path}:{line}: {text}"


def _top(target: str) -> str:
    return target.partition(".")[0]


def _within(target: str, module: str) -> bool:
    return target == module or target.startswith(module + ".")
