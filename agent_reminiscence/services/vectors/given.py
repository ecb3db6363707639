"""A vector that a caller gives for a question, instead of having the question embedded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from collections.abc import Set as AbstractSet
from numbers import Real
from typing import Any

from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.wording import kind_of
from agent_reminiscence.exceptions import InvalidInputError


def unit_vector(value: object, generation: Generation) -> tuple[float, ...]:
    """The given vector at unit length, as the stored vectors of `generation` are.

    Raises:
        InvalidInputError: It is no list of as many finite numbers as the stored vectors have, or all are zero.
    """
    wanted = f"embedding must be {generation.dimension} finite numbers, made by {generation.model_name!r}"
    # Mappings and sets have no order; an array without dimensions has a length only in name.
    is_other = isinstance(value, str | bytes | Mapping | AbstractSet) or getattr(value, "shape", None) == ()
    if is_other or not isinstance(value, Sized):
        raise InvalidInputError(f"{wanted}, not {kind_of(value)}")
    if len(value) != generation.dimension:
        raise InvalidInputError(f"{wanted}, not {len(value):,}")
    numbers = [_number(one) for one in _iterable(value)]
    unusable = next((place for place, number in enumerate(numbers) if not math.isfinite(number)), None)
    if unusable is not None:
        raise InvalidInputError(f"{wanted}; number {unusable} is not")
    # Scaled first: the squares of large numbers would be infinite, and those of small ones zero.
    largest = max(map(abs, numbers))
    if not largest:
        raise InvalidInputError(f"{wanted}, and not all of them zero: such a vector has no direction")
    scaled = [number / largest for number in numbers]
    length = math.sqrt(math.sumprod(scaled, scaled))
    return tuple(number / length for number in scaled)


def _iterable(value: Any) -> list[object]:
    return list(value)


def _number(value: object) -> float:
    """The number that a value is; NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
