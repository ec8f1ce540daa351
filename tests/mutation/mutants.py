"""The mutants of a module: its syntax tree with one thing in it wrong.

What is changed is what a table or a decision is made of: comparisons, conditions, constants, entries of tables, what is
returned, and statements that act. What no test should be asked to notice is left alone: documentation, type
annotations and aliases, `__all__`, what is only for a type checker, and the wording of texts (a string with a space in
it), of which the tests pin what a caller relies on and not each word.

Trees keep their positions, so a mutant is compiled as it is and tracebacks still point into the file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_REVERSED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}


class Mutation(NamedTuple):
    """One thing to do to a tree."""

    where: str
    """The name of what it is in, as `Class.method`; empty at the top of the module."""
    lines: tuple[int, int]
    what: str
    """Before and after, as source."""
    apply: Callable[[], None]


def mutations(tree: ast.Module) -> Iterator[Mutation]:
    """All that can be done to `tree`, in the order of its lines. At most one may be applied to one tree."""
    yield from _in_body(tree, "")


def mutated(source: str, number: int | None) -> ast.Module:
    """The tree of `source` with mutation `number` done to it; None: as it is."""
    tree = ast.parse(source)
    if number is not None:
        next(islice(mutations(tree), number, None)).apply()
    return tree


def _in_body(owner: ast.AST, where: str) -> Iterator[Mutation]:
    for body in _bodies(owner):
        for at, statement in enumerate(body):
            if _says_nothing_to_a_test(statement):
                continue
            yield from _deletion(body, at, where)
            yield from _in_expressions(statement, where)
            yield from _in_body(statement, _inside(where, statement))


def _inside(where: str, statement: ast.stmt) -> str:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return f"{where}.{statement.name}".lstrip(".")
    return where


def _bodies(owner: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(owner, name, None)
        if isinstance(body, list):
            yield body
    for part in (*getattr(owner, "handlers", ()), *getattr(owner, "cases", ())):
        yield part.body


def _says_nothing_to_a_test(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Assert():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.FunctionDef(name=name) if name in ("__repr__", "__rich_repr__"):
            return True
        case ast.FunctionDef(decorator_list=[ast.Name(id="overload"), *_]):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str())) if name.isupper():
            return True  # what a member of an enumeration is called
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name in ("__all__", "__slots__") or name.startswith("__match") or _is_type(value)
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.AnnAssign(value=None):
            return True
        case _:
            return False


def _is_type(value: ast.expr) -> bool:
    """An alias: `Literal[...]`, `Callable[...]`, `A | B` of names, `TypeVar(...)`."""
    match value:
        case ast.Subscript(value=ast.Name(id=name)):
            return name[0].isupper() or name in ("tuple", "list", "dict", "set", "frozenset")
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return all(isinstance(side, ast.Name | ast.Constant | ast.Subscript | ast.BinOp) for side in (left, right))
        case ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec")):
            return True
        case _:
            return False


def _deletion(body: list[ast.stmt], at: int, where: str) -> Iterator[Mutation]:
    statement = body[at]
    match statement:
        case ast.Expr(value=ast.Call() | ast.Await() | ast.YieldFrom() | ast.Yield()):
            pass
        case ast.Raise() | ast.AugAssign() | ast.Delete() | ast.Continue() | ast.Break():
            pass
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            pass
        case _:
            return

    def apply() -> None:
        body[at] = ast.copy_location(ast.Pass(), statement)

    yield Mutation(where, _lines(statement), f"{_source(statement)} -> pass", apply)


def _in_expressions(statement: ast.stmt, where: str) -> Iterator[Mutation]:
    """What can be wrong in the expressions of one statement; those of the statements inside it are theirs."""
    match statement:
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield _field(statement, "value", ast.Constant(None), where)
        case ast.If(test=test) | ast.While(test=test):
            yield _field(statement, "test", ast.UnaryOp(ast.Not(), test), where)
        case _:
            pass
    for node in _expressions_of(statement):
        yield from _of_expression(node, where)


def _expressions_of(owner: ast.AST) -> Iterator[ast.expr]:
    for name, value in ast.iter_fields(owner):
        if name in ("annotation", "returns", "decorator_list") or (name == "args" and _is_cast(owner)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr):
                yield child
            if isinstance(child, ast.AST) and not isinstance(child, ast.stmt | ast.JoinedStr):
                yield from _expressions_of(child)


def _is_cast(owner: ast.AST) -> bool:
    return isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "cast"


def _of_expression(node: ast.expr, where: str) -> Iterator[Mutation]:
    match node:
        case ast.Compare(ops=[op, *rest]) if type(op) in _OPPOSITE:
            yield _field(node, "ops", [_OPPOSITE[type(op)](), *rest], where)
        case ast.BoolOp(op=op):
            yield _field(node, "op", ast.Or() if isinstance(op, ast.And) else ast.And(), where)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _field(node, "operand", ast.UnaryOp(ast.Not(), operand), where)
        case ast.IfExp(test=test):
            yield _field(node, "test", ast.UnaryOp(ast.Not(), test), where)
        case ast.BinOp(op=op) if type(op) in _REVERSED:
            yield _field(node, "op", _REVERSED[type(op)](), where)
        case ast.Constant(value=bool() as value):
            yield _field(node, "value", not value, where)
        case ast.Constant(value=int() as value):
            yield _field(node, "value", value + 1, where)
        case ast.Constant(value=str() as value) if value and " " not in value:
            yield _field(node, "value", value + "-", where)
        case ast.Dict(keys=keys, values=values) if len(keys) > 0:
            for at in range(len(keys)):
                yield _without(node, at, [(keys, at), (values, at)], where)
        case ast.Set(elts=elements) | ast.List(elts=elements) | ast.Tuple(elts=elements) if len(elements) > 1:
            if isinstance(node, ast.Set) or isinstance(getattr(node, "ctx", None), ast.Load):
                for at in range(len(elements)):
                    yield _without(node, at, [(elements, at)], where)
        case _:
            pass


def _field(node: ast.AST, name: str, value: object, where: str) -> Mutation:
    """`node` with another value in one field, and what that reads like."""
    before, had = _source(node), getattr(node, name)

    def apply() -> None:
        setattr(node, name, value)
        ast.fix_missing_locations(node)

    apply()
    after = _source(node)
    setattr(node, name, had)
    return Mutation(where, _lines(node), f"{before} -> {after}", apply)


def _without(node: ast.expr, at: int, parts: list[tuple[list, int]], where: str) -> Mutation:
    gone = [items[index] for items, index in parts if items[index] is not None]

    def apply() -> None:
        for items, index in parts:
            del items[index]

    lines = (gone[0].lineno, gone[-1].end_lineno or gone[-1].lineno)
    return Mutation(
        where, lines, f"{': '.join(map(_source, gone))} left out of its {type(node).__name__.lower()}", apply
    )


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _lines(node: ast.AST) -> tuple[int, int]:
    """Where it shows: of a statement with a body, its head alone."""
    first = node.lineno
    if isinstance(node, ast.If | ast.While):
        return first, node.test.end_lineno or first
    return first, node.end_lineno or first


def _source(node: ast.AST) -> str:
    head = node
    if isinstance(node, ast.If | ast.While):
        return f"{'if' if isinstance(node, ast.If) else 'while'} {ast.unparse(node.test)}"
    text = " ".join(ast.unparse(head).split())
    return text if len(text) <= 120 else text[:90] + " … " + text[-27:]
