"""How items of a LangGraph store stand in the memory; LangGraph itself is not needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_reminiscence import InvalidInputError
from agent_reminiscence.config.installation import install_command
from agent_reminiscence.integrations import langgraph_items as items
from agent_reminiscence.services.validation import new_memory_key
from tests.support.extras import run_without

# As LangGraph allows them, often with what a memory's key cannot hold, or what is a sign of ours.
_LABELS = st.text(st.sampled_from("ab/%# \n\x1f\u00a0é🔑#2F"), min_size=1, max_size=6) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00."), min_size=1, max_size=90
)
_KEYS = st.text(st.sampled_from("ab/%. \n\x1f\u00a0é🔑#2F"), max_size=6) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=200
)
_NAMES = st.tuples(st.lists(_LABELS, min_size=1, max_size=4).map(tuple), _KEYS)


@given(one=_NAMES, other=_NAMES)
@example(one=(("a",), "b./c"), other=(("a", "b"), "c"))
@example(one=(("a/b",), "c"), other=(("a",), "b./c"))
@example(one=(("a%2Fb",), "c"), other=(("a/b",), "c"))
@example(one=(("a",), "k "), other=(("a",), "k%20"))
@example(one=(("a",), "k\u2003"), other=(("a",), "k%E2%80%83"))
@example(one=(("#" + "0" * 64,), ""), other=(("a" * 300,), ""))
def test_each_item_has_a_memory_key_of_its_own(one: tuple[Any, str], other: tuple[Any, str]) -> None:
    """One that a memory can have, whatever the names hold and however long they are."""
    made = items.memory_key(*one)

    assert made == new_memory_key(made) == items.memory_key(*one)
    assert made.startswith(items.KEY_PREFIX)
    assert (made == items.memory_key(*other)) is (one == other)


def test_a_memory_key_can_be_read() -> None:
    """Unless it would be too long."""
    assert items.memory_key(("users", "ana"), "tea") == "langgraph/users.ana./tea"
    assert items.memory_key(("files",), "/notes/plan.md") == "langgraph/files.//notes/plan.md"
    assert items.memory_key(("a/b%",), "50% off ") == "langgraph/a%2Fb%25./50%25 off%20"
    assert items.memory_key(("a" * 300,), "k").startswith("langgraph/#")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"text": "I like tea."}, "I like tea."),
        ({"content": {"kind": "note", "said": "hi"}}, "content.kind = note\ncontent.said = hi"),
        ({"name": "Ana", "age": 30, "likes": ["tea", "go"]}, "name = Ana\nage = 30\nlikes = tea, go"),
        ({"a": [{"b": 1}, {"b": None}], "none": None, "empty": [], "off": False}, "a[0].b = 1\noff = False"),
        ({}, ""),
        ({"blank": ""}, ""),
    ],
)
def test_a_whole_value_is_searched_as_text(value: dict[str, Any], text: str) -> None:
    """The text of an only field by itself, others with where they stand."""
    assert items.readable_text(value) == text


@pytest.mark.parametrize(
    ("namespace", "title"),
    [
        (("users", "ana"), "users / ana"),
        (("a\n b",), "a b"),
        ((" ",), "langgraph"),
        (("x" * 600,), "x" * 500),
    ],
)
def test_a_memory_is_called_by_its_namespace(namespace: tuple[str, ...], title: str) -> None:
    """As far as a title goes."""
    assert items.title(namespace) == title


def test_a_copy_of_the_value_is_kept() -> None:
    """What a caller changes afterwards changes no item."""
    value: dict[str, Any] = {"list": [1], "pair": (1, 2)}
    copied = items.checked("k", value)
    value["list"].append(2)

    assert copied == {"list": [1], "pair": [1, 2]}
    with pytest.raises(InvalidInputError, match="must be a mapping"):
        items.checked("k", None)


def test_a_character_of_a_value_that_cannot_be_stored_is_replaced() -> None:
    """No item is lost over it, and no key of it; but names are what an item is found by."""
    value = items.checked("k", {"a\x00": "b\x00", "a\ud800": ["\ud83d\ude00"]})

    assert list(value.values()) == ["b\ufffd", ["😀"]]
    assert len(value) == 2
    with pytest.raises(InvalidInputError, match="namespace or key holds a NUL character"):
        items.metadata(("home",), "k\x00", value)


def test_a_text_is_cut_short_once_it_is_too_long() -> None:
    """Long paths, repeated on each line, would make gigabytes of a value that is not large."""
    text = items.readable_text({"x" * 100_000: [{"a": 1}] * 10_000})

    assert 1_000_000 < len(text) < 1_200_000
    with pytest.raises(InvalidInputError, match="more than 1,000,000 characters"):
        items.check_text("k", text)


@pytest.mark.parametrize(
    ("path", "is_suffix", "holds"),
    [
        ((), False, True),
        (("a",), False, True),
        (("*", "b"), False, True),
        (("a", "b", "c", "d"), False, False),
        (("b",), False, False),
        (("c",), True, True),
        (("*", "c"), True, True),
        (("b",), True, False),
        ((), True, True),
    ],
)
def test_a_path_is_compared_label_by_label(path: tuple[str, ...], is_suffix: bool, holds: bool) -> None:
    """From the beginning or from the end."""
    assert items.matches(path, ("a", "b", "c"), is_suffix=is_suffix) is holds


@pytest.mark.thorough
def test_an_older_langgraph_is_refused_by_name(tmp_path: Path) -> None:
    """One whose stores lack what ours is made from."""
    (tmp_path / "langgraph" / "store").mkdir(parents=True)
    (tmp_path / "langgraph" / "store" / "base.py").write_text("class BaseStore: ...\n")
    program = f"""
import agent_reminiscence
sys.path.insert(0, {str(tmp_path)!r})
for name in [name for name in sys.modules if name.partition(".")[0] == "langgraph"]:
    del sys.modules[name]
try:
    import agent_reminiscence.integrations.langgraph
except agent_reminiscence.ConfigurationError as error:
    print(error)
"""
    done = run_without(program=program)

    assert done.returncode == 0, done.stderr
    assert "needs langgraph-checkpoint 4.3.2 or later, and the installed one is older" in done.stdout


@pytest.mark.thorough
def test_without_langgraph_the_store_says_what_to_install() -> None:
    """When it is imported: it is made from a class of LangGraph."""
    program = """
import agent_reminiscence.integrations
try:
    from agent_reminiscence.integrations.langgraph import ReminiscenceStore
except agent_reminiscence.ConfigurationError as error:
    print(error)
"""
    done = run_without("langgraph", program=program)

    assert (done.returncode, done.stdout) == (
        0,
        f"ReminiscenceStore needs langgraph, which is not installed; run `{install_command('langgraph')}`\n",
    ), done.stderr
