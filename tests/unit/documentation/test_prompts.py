"""docs/reference/prompts.md, held against what the agents really send."""

from __future__ import annotations

from scripts import write_prompts


def test_the_page_shows_each_prompt_as_it_is_sent() -> None:
    """Who changes a prompt changes the page: `make prompts`."""
    assert write_prompts.PAGE.read_text(encoding="utf-8") == write_prompts.page(), "out of date; run: make prompts"
