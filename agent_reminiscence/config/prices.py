"""What models cost, as settings say it."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

type Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ModelPrice(BaseModel):
    """What a million tokens of one model cost, in US dollars."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Dollars = Field(description="A million tokens that it reads.")
    output: Dollars = Field(description="A million tokens that it writes.")


def read_prices(text: str) -> dict[str, Any]:
    """The prices that a variable has as JSON.

    Raises:
        ValueError: The text is something else, or names a model twice.
    """
    try:
        prices = json.loads(text, object_pairs_hook=_each_name_once)
    except (json.JSONDecodeError, RecursionError):
        prices = None
    if not isinstance(prices, dict):
        raise ValueError('must be a JSON object, such as {"gpt-5-mini": {"input": 0.25, "output": 2}}')
    return prices


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        twice = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
        raise ValueError(f"has {twice!r} twice; which of them counts would be a guess")
    return read
