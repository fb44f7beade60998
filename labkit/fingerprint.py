"""Fingerprint: a hash of exactly the code a measurement was made with, the same on every Python version."""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import io
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from .cuda import Rung
from .errors import LabError
from .kernel import Kernel

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
# Python 3.12 splits an f-string into many tokens, 3.11 keeps it whole: the span is taken as text.
_FSTRING = (getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1))


def fingerprint(function: Callable[..., Any]) -> str:
    """A 16-digit hash of a function's source, without comments and blank space, and of what it refers to.

    What counts: plain values, kernels and rungs (their fingerprints), lists and dictionaries of these, and
    functions defined beside it (by their own source). Arrays count by dtype and shape, library objects by name.
    Raises LabError if the source cannot be read.
    """
    parts = list(_parts(function, set()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _parts(function: Any, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    source = _source(function)
    yield canonical(source)
    names = _names(source)
    closure = inspect.getclosurevars(function)
    scope = {**function.__globals__, **closure.nonlocals}
    for name in sorted(names & set(scope)):
        if not hasattr(builtins, name):
            yield from _value(name, scope[name], function.__module__, seen)
    for name, value in sorted(_ladders(source, scope).items()):
        yield from _value(name, value, function.__module__, seen)


def _value(name: str, value: Any, module: str, seen: set[int]) -> Iterator[str]:
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, Kernel | Rung):
        yield f"{name}={value.fingerprint}"
    elif isinstance(value, _PLAIN):
        yield f"{name}={value!r}"
    elif isinstance(value, FunctionType) and value.__module__ == module:
        yield from _parts(value, seen)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _value(f"{name}[{index}]", item, module, seen)
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from _value(f"{name}[{key!r}]", value[key], module, seen)
    elif isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype"):
        yield f"{name}: {value.dtype} {tuple(value.shape)}".replace("torch.", "")


def _source(function: Any) -> str:
    """A function's source without its decorators (a grid that grows keeps its recordings); a lambda's statement."""
    try:
        lines, _ = inspect.findsource(function)
        first = function.__code__.co_firstlineno
        statement = _statement(ast.parse("".join(lines)), first, function.__name__)
    except (OSError, TypeError, SyntaxError, AttributeError) as error:
        raise LabError(
            f"the source of {getattr(function, '__name__', function)!r}",
            f"Python cannot show it ({error})",
            "define it in a notebook cell or a file",
        ) from error
    return textwrap.dedent("".join(lines[statement.lineno - 1 : statement.end_lineno]))


def _statement(tree: ast.Module, first: int, name: str) -> ast.stmt:
    """The definition of `name` that begins at line `first` (its decorators' line), or the statement around it."""
    around: ast.stmt = tree.body[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name and first in _begins(node):
            return node
        if isinstance(node, ast.stmt) and node.lineno <= first <= (node.end_lineno or 0):
            around = node
    return around


def _begins(node: ast.FunctionDef) -> set[int]:
    return {node.lineno, *(d.lineno for d in node.decorator_list)}


def _names(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def _ladders(source: str, scope: dict[str, Any]) -> dict[str, dict[str, Rung]]:
    """Ladders that the source reaches through a module, as in `labkit.cuda.sgemm`, by that name."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            value = _reached(node, scope)
            if isinstance(value, dict) and value and all(isinstance(rung, Rung) for rung in value.values()):
                found[ast.unparse(node)] = value
    return found


def _reached(node: ast.AST, scope: dict[str, Any]) -> Any:
    """What a name, or an attribute of a module, stands for; None if it is anything else."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _reached(node.value, scope)
    return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None


def canonical(source: str) -> str:
    """Python source reduced to its tokens: no comments, no blank space but what separates and indents."""
    lines = source.splitlines(keepends=True)
    words: list[str] = []
    depth, start = 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == _FSTRING[0]:
            start = start if depth else token.start
            depth += 1
        elif token.type == _FSTRING[1]:
            depth -= 1
            if not depth:
                words.append(_span(lines, start, token.end))
        elif not depth and token.type not in _SKIPPED:
            words.append(_word(token))
    return " ".join(words)


def _word(token: tokenize.TokenInfo) -> str:
    names = {tokenize.INDENT: "<in>", tokenize.DEDENT: "<out>", tokenize.NEWLINE: "<line>"}
    return names.get(token.type, token.string)


def _span(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    first, last = lines[start[0] - 1][start[1] :], lines[end[0] - 1][: end[1]]
    return first + "".join(lines[start[0] : end[0] - 1]) + last
