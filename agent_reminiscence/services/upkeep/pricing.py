"""What models have cost, in US dollars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent_reminiscence.config.prices import ModelPrice
from agent_reminiscence.domain.usage import ModelSpending

_MILLION: Final = 1_000_000
# Long requests of some models cost more for each token. How long each was is not recorded, so none counts as one.
_SHORT_REQUEST_TOKENS: Final = 1_000


class ModelPrices:
    """Adds what models cost: at the prices of the settings, else at those that come with the extra `models`.

    Args:
        configured: By the name of the model, as the ledger has it.
    """

    def __init__(self, configured: Mapping[str, ModelPrice] | None = None) -> None:
        self._known: dict[str, ModelPrice | None] = dict(configured or {})

    def price(self, usage: ModelSpending) -> ModelSpending:
        """A model's use with its cost. The first model that the settings do not name loads the list of prices."""
        if usage.model not in self._known:
            self._known[usage.model] = _published_price(usage.model)
        price = self._known[usage.model]
        cost = (
            None
            if price is None
            else (usage.input_tokens * price.input + usage.output_tokens * price.output) / _MILLION
        )
        return usage.model_copy(update={"cost_usd": cost})


def _published_price(model: str) -> ModelPrice | None:
    """The price that the model's provider asks, as far as a list that comes with Pydantic AI has it."""
    # A tag, as Ollama gives: a model that runs on somebody's own machine, whatever hosted one it is called like.
    if ":" in model:
        return None
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    asked = Usage(input_tokens=_SHORT_REQUEST_TOKENS, output_tokens=_SHORT_REQUEST_TOKENS)
    try:
        found = calc_price(asked, model)
    except LookupError:
        return None
    scale = _MILLION / _SHORT_REQUEST_TOKENS
    return ModelPrice(input=float(found.input_price) * scale, output=float(found.output_price) * scale)
