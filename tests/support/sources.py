"""Python files as syntax trees: what they import, define and export, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """`target` is the dotted module, or `module.name` for `from module import name`."""

    target: str
    line: int
    inside_function: bool


@dataclass(frozen=True)
class Source:
    """One file: its path in the repository and its text."""

    path: str
    text: str

    @classmethod
    def read(cls, root: Path, path: Path) -> Source:
        return cls(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    @property
    def module(self) -> str:
        """`recsys_attn/blocks/mlp.py` -> `recsys_attn.blocks.mlp`."""
        name = self.path.removesuffix(".py").replace("/", ".")
        return name.removesuffix(".__init__")

    @property
    def package(self) -> str:
        """The top-level folder."""
        return self.path.partition("/")[0]

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def imports(self) -> list[Import]:
        """Every absolute import, with `import_module("name")` and `__import__("name")`."""
        return list(_imports(self.tree, inside_function=False))

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    @cached_property
    def public_names(self) -> set[str]:
        """Names that the top level defines, or imports from its own package, without `_`."""
        names = {
            name
            for node in self.tree.body
            if not isinstance(node, ast.ImportFrom)
            or (node.module or "").partition(".")[0] == self.package
            for name in _bound_names(node)
        }
        return {name for name in names if not name.startswith("_")}

    @cached_property
    def all_names(self) -> list[str] | None:
        """`__all__` as written, or None."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and "__all__" in _bound_names(node):
                return list(ast.literal_eval(node.value))
        return None


def code_lines(function: Function) -> int:
    """Lines from `def` to the end of the body, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def own_arguments(function: Function) -> list[str]:
    """Names of a method's arguments without `self`, `*args` and `**kwargs`."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in named][1:]


def _imports(node: ast.AST, *, inside_function: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for target in _targets(child):
            yield Import(target, getattr(child, "lineno", 1), inside_function)
        in_function = isinstance(child, Function | ast.Lambda)
        yield from _imports(child, inside_function=inside_function or in_function)


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = ast.unparse(node.func).rpartition(".")[2]
        value = node.args[0].value
        if called in ("import_module", "__import__") and isinstance(value, str):
            return [value]
    return []


def _bound_names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.ImportFrom():
            return [alias.asname or alias.name for alias in node.names]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
