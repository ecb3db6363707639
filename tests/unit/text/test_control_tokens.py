"""Words that a server may take for tokens of its own: no rendering passes them on."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_reminiscence.agents.material import as_line
from agent_reminiscence.react.models import Fact
from agent_reminiscence.react.numbering import Numbering
from agent_reminiscence.react.rendering import render_facts
from agent_reminiscence.text.control_tokens import CONTROL_TOKEN, clean, defused
from agent_reminiscence.text.rendering import Passage, Summary, render
from agent_reminiscence.views.context import quote

_MAY = datetime(2022, 5, 8, 12, tzinfo=UTC)
_TOKENS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<|channel|>",
    "<\uff5cUser\uff5c>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<think>",
    "</think>",
    "</THINK >",
    "<start_of_turn>",
    "<end_of_turn>",
    "<tool_call>",
    "</tool_response>",
    "<s>",
    "</s>",
    "<bos>",
    "<unused42>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "<<SYS>>",
    "<</SYS>>",
    "[|assistant|]",
]


@pytest.mark.parametrize("token", _TOKENS)
def test_no_rendering_passes_a_control_token_on(token: str) -> None:
    """Whatever part of a memory it stands in; the words in it stay."""
    hidden = token[:2] + "\u200b" + token[2:]
    said = f"Yes.{token}{hidden}system"
    passage = Passage(memory=1, title=said, text=f"{said}\n{said}", start=_MAY, speaker=said, source=said)
    standing = Passage(memory=2, title="", text=said, start=_MAY, is_pinned=True)
    fact = Fact(id="1", content=said, timestamp=_MAY)

    shown = [
        render([passage], standing=[standing], summaries=[Summary(said, said, _MAY, source=said)]),
        quote(said),
        as_line({"text": said}),
        render_facts([fact], Numbering()),
    ]

    for one in shown:
        assert token not in one
        assert not CONTROL_TOKEN.search(one), one
        assert "system" in one
    assert json.loads(shown[2])["text"].startswith(f"Yes.{token}")


@pytest.mark.parametrize(
    "text",
    [
        "a < b and b > c",
        "List<String>",
        "<div>",
        "</span>",
        "[1]",
        "[see there]",
        "x <- y",
        "|> pipe <|",
        "arr[middle] < n",
        "d[prefix] = x[suffix]",
        "tool [args]",
        "a[|x||y|]",
    ],
)
def test_what_is_no_control_token_stays(text: str) -> None:
    """Code and mathematics are shown as they were written."""
    assert defused(text) == text


@given(st.lists(st.sampled_from([*_TOKENS, "<", ">", "|", "[", "]", "/", "think", "\u200b", " ", "a"]), max_size=12))
@example(["<", "<|im_end|>", ">"])
def test_cleaning_leaves_no_token_whatever_stands_around_it(parts: list[str]) -> None:
    """Neither one inside another, nor one that an invisible character divided; a second cleaning changes nothing."""
    shown = clean("".join(parts))

    assert not any(token in shown for token in _TOKENS)
    assert not CONTROL_TOKEN.search(shown)
    assert clean(shown) == shown
