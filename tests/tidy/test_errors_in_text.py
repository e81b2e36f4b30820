"""An error that a person reads has a reason; rules read the tree as git has it."""

import ast
from collections.abc import Iterator
from typing import Final

from testkit.tree.files import name_of, tracked

PRODUCTS: Final = ("controller_core/", "ha_sidecar/", "operator/", "spark/")
TREES: Final = {
    name_of(path): ast.parse(path.read_text())
    for path in tracked("*.py")
    if name_of(path).startswith(PRODUCTS) and "/tests/" not in name_of(path)
}
READ_BY_PEOPLE: Final = {"info", "warning", "error"}
REPR: Final = ord("r")


def _catches_timeouts(handler: ast.ExceptHandler, tree: ast.Module) -> bool:
    """Say whether a handler, or a tuple of the module that it names, lists TimeoutError."""
    if handler.type is None:
        return False
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign | ast.Assign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id in names for target in targets):
                names |= {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    return "TimeoutError" in names


def _writes_bare(node: ast.AST, name: str) -> bool:
    """Say whether an expression puts a caught error into a text as it is."""
    if isinstance(node, ast.FormattedValue):
        return _is(node.value, name) and node.conversion != REPR
    if not isinstance(node, ast.Call) or not _is_log(node.func):
        return False
    shows_class = (
        bool(node.args) and isinstance(node.args[0], ast.Constant) and "%r" in str(node.args[0].value)
    )
    return not shows_class and any(_is(one, name) for one in node.args)


def _is_log(function: ast.expr) -> bool:
    """Say whether it is a method such as `_log.info`, or a function such as `_log_refusal`."""
    if isinstance(function, ast.Attribute):
        return function.attr in READ_BY_PEOPLE
    return isinstance(function, ast.Name) and function.id.startswith("_log")


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _handlers(tree: ast.Module) -> Iterator[ast.ExceptHandler]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name)


def test_a_timeout_is_never_written_as_an_empty_text() -> None:
    found = {
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for handler in _handlers(tree)
        if _catches_timeouts(handler, tree)
        for statement in handler.body
        for node in ast.walk(statement)
        if isinstance(node, ast.expr) and _writes_bare(node, handler.name or "")
    }
    assert found == set(), "use controller_core.error_text"


def test_an_error_is_not_taken_for_its_text() -> None:
    found = {
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for handler in _handlers(tree)
        for node in ast.walk(handler)
        if isinstance(node, ast.BoolOp) and _is(node.values[0], handler.name or "")
    }
    assert found == set(), "an exception is always true"
