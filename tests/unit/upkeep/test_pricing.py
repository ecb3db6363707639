"""What a model has cost: at the settings' price, else at the provider's, else unknown."""

from __future__ import annotations

import sys

import pytest
from genai_prices import Usage, calc_price

from agent_reminiscence.config.prices import ModelPrice
from agent_reminiscence.domain.usage import ModelSpending
from agent_reminiscence.services.upkeep.pricing import ModelPrices

_HOSTED = "gpt-5-mini"


def _spent(model: str) -> ModelSpending:
    return ModelSpending(model=model, requests=3, input_tokens=2_000_000, output_tokens=500_000)


def test_a_configured_price_wins() -> None:
    """Also one of nothing, which a model of one's own costs."""
    prices = ModelPrices({_HOSTED: ModelPrice(input=1.0, output=4.0), "mine": ModelPrice(input=0, output=0)})

    assert prices.price(_spent(_HOSTED)).cost_usd == 4.0
    assert prices.price(_spent("mine")).cost_usd == 0.0
    assert prices.price(_spent("mine")).requests == 3


def test_a_provider_s_price_is_that_of_short_requests() -> None:
    """All requests of a month are no single long one, for which some providers ask more."""
    for model in (_HOSTED, "claude-sonnet-4-5-20250929"):
        short = calc_price(Usage(input_tokens=2_000, output_tokens=500), model)
        assert ModelPrices().price(_spent(model)).cost_usd == pytest.approx(float(short.total_price) * 1_000)


@pytest.mark.parametrize("model", ["scripted", "deepseek-r1:8b", "gpt-nowhere", ""])
def test_an_unknown_price_is_none(model: str) -> None:
    """Never nothing; a model with a tag runs on somebody's own machine, whatever it is called like."""
    assert ModelPrices().price(_spent(model)).cost_usd is None


def test_without_the_extra_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked before it was uninstalled is still counted."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    assert ModelPrices().price(_spent(_HOSTED)).cost_usd is None
