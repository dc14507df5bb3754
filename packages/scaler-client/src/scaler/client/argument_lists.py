"""Decides whether the tuples in the only iterable of a ``map`` are argument lists or single arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scaler.client.signatures import Arities, function_name
from scaler.utility.warning import warn_program

Groups = list[tuple[int, Sequence[Any]]]
"""Neighbours with the same number of arguments: that number, and their argument lists. Where it is one, the arguments
themselves."""

AMBIGUOUS = (
    "map() passes each of these tuples as an argument list, although the function also takes it as one argument. Use "
    "starmap() for argument lists, or imap() to pass each tuple as it is."
)
_RULE = (
    "When all items are tuples, map() passes them as argument lists if the function's signature takes them so, and "
    "always if they have one item; otherwise each tuple is one argument. Use starmap() for argument lists, or imap() "
    "to pass each tuple as it is."
)


def groups_of_items(callable_: Callable[..., Any], items: Sequence[Any]) -> Groups:
    """The calls of a map over one iterable. Raises TypeError when ``callable_`` cannot take its tuples in either way.
    Only exact tuples can be argument lists: a namedtuple is a value."""
    if not items:
        return []
    if type(items[0]) is not tuple or not all(type(item) is tuple for item in items):
        return [(1, items)]
    if not _are_argument_lists(callable_, items):
        return [(1, items)]
    return groups_of_lists(items)


def _are_argument_lists(callable_: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> bool:
    lengths = sorted({len(item) for item in items})
    arities = Arities(callable_)
    fits = arities.prefers if arities.prefers(1) or all(map(arities.prefers, lengths)) else arities.accepts
    if all(map(fits, lengths)):
        if lengths != [1] and fits(1):
            warn_program(AMBIGUOUS)
        return True
    if fits(1) and 1 not in lengths:
        return False
    raise TypeError(_misfit(callable_, lengths))


def _misfit(callable_: Callable[..., Any], lengths: list[int]) -> str:
    sizes = " or ".join(map(str, lengths)) if len(lengths) <= 3 else f"{lengths[0]} to {lengths[-1]}"
    return f"Cannot map {function_name(callable_)}() over tuples of {sizes} items: it does not take them. {_RULE}"


def groups_of_lists(items: Sequence[tuple[Any, ...]]) -> Groups:
    """Argument lists, grouped where neighbours have the same length."""
    groups: Groups = []
    start = 0
    while start < len(items):
        length = len(items[start])
        stop = start + 1
        while stop < len(items) and len(items[stop]) == length:
            stop += 1
        part: Sequence[Any] = items[start:stop]
        groups.append((length, [item[0] for item in part] if length == 1 else part))
        start = stop
    return groups
