"""A question on the page Ask to several memories, of a key that names further ones."""

from __future__ import annotations

import re
from typing import Final

import pytest

from agent_reminiscence import AgentMem
from tests.integration.server.inspector.conftest import SignedIn
from tests.support.browsing import read
from tests.support.inspected import MILL

_LINK: Final = re.compile(r"/memories/([0-9a-f-]{36})")
_ASK: Final = "/ask?q=Who+counted+the+cracked+panes%3F"


@pytest.mark.usefixtures("told")
async def test_a_key_that_names_further_memories_chooses_among_them(unopened: AgentMem, signed_in: SignedIn) -> None:
    """None ticked is all; a hit of another memory says whose it is, and leads to no page that the key may not see."""
    async with signed_in("member") as browser:
        everything = await browser.get(_ASK)
        mine = await unopened.create_active_memory(
            "member", "Panes", "I counted the cracked panes twice, said the member."
        )
        both = await browser.get(_ASK)
        own = await browser.get(f"{_ASK}&external_ids=member")
        foreign = await browser.get(f"{_ASK}&external_ids=neighbour")

    assert "eleven cracked panes" in everything.text
    assert not _LINK.search(everything.text)
    assert set(_LINK.findall(both.text)) == {str(mine.id)}
    assert 'name="external_ids" value="mill"' in both.text
    assert f'<span class="chip">{MILL}</span>' in both.text
    assert "said the member" in both.text
    assert not read(both).faults
    assert ("eleven cracked panes" in own.text, "said the member" in own.text) == (False, True)
    assert (foreign.status_code, "may not read" in foreign.text) == (403, True)


@pytest.mark.usefixtures("told")
async def test_a_key_of_one_memory_is_offered_no_choice(signed_in: SignedIn) -> None:
    """There is nothing to choose."""
    async with signed_in("reader") as browser:
        page = await browser.get(_ASK)

    assert "external_ids" not in page.text
    assert _LINK.search(page.text)
