"""A payload that is too large for one event comes back from several exactly, and a text is whole in one of them."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_reminiscence.config.constants import MAX_EVENT_PAYLOAD_BYTES
from agent_reminiscence.domain.canonical import count_json_bytes
from agent_reminiscence.domain.erasure import event_says
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.ledger import division
from agent_reminiscence.services.ledger.division import divide, parts_of, put_together

_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=80)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(_TEXTS, inner, max_size=6),
    max_leaves=30,
)


def _stored(payload: Any) -> Any:
    """As `jsonb` gives it back: keys in another order."""
    return json.loads(json.dumps(payload, sort_keys=True))


@settings(max_examples=60)
@given(payload=st.dictionaries(_TEXTS, _VALUES, max_size=8))
@example(payload={"a": "\x1f" * 400, "b": "🛳" * 300, "c": [], "d": {"piece": "x", "list": 3}})
@example(payload={"a": 1.0, "b": [-0.0, 1e22, 10**30], "c": "x" * 1_000})
def test_any_payload_comes_back_as_it_was(payload: dict[str, Any]) -> None:
    """Whatever its parts are, and wherever they are cut."""
    with pytest.MonkeyPatch.context() as small:
        for name, size in {
            "MAX_EVENT_PAYLOAD_BYTES": 100,
            "_KEPT_BYTES": 40,
            "_NAMED_BYTES": 0,
            "_PART_BYTES": 150,
            "_PIECE_BYTES": 60,
            "_OVERLAP": 9,
        }.items():
            small.setattr(division, name, size)
        divided = divide("world.seen", payload)

    stored, parts = _stored(divided.payload), [_stored(part) for part in divided.parts]
    assert put_together(stored, parts) == payload
    assert (parts_of(stored) is None) == (not parts)
    if parts:
        for wrong in (parts[1:], parts[:-1], [*parts, parts[0]], parts[::-1] if len(parts) > 1 else []):
            with pytest.raises(ValueError, match="parts are missing"):
                put_together(stored, wrong)


@pytest.mark.parametrize("character", ["x", "é", "🛳", "\x1f", '"'])
def test_each_event_is_within_the_limit_and_small_values_stay(character: str) -> None:
    """Whatever a character takes as JSON; and a text that may be erased lies whole in one of the events."""
    name = "Vela Luka, whole"
    text = character * 690_000 + name + character * 900_000
    payload = {"about": "ana", "image": text, "outputs": [character * 100_000] * 12}

    divided = divide("world.seen", payload)

    assert divided.payload["about"] == "ana"
    assert divided.payload.keys() == {"about", "memory.divided"}
    for part in (divided.payload, *divided.parts):
        assert len(json.dumps(part, ensure_ascii=False).encode()) <= MAX_EVENT_PAYLOAD_BYTES
    assert put_together(divided.payload, divided.parts) == payload
    for length in (len(name), 19_999):
        for at in range(0, len(text) - length, 33_331):
            named = text[at : at + length]
            assert any(event_says(EventKind.VALUE_PART, part, named) for part in divided.parts), (at, length)


def test_how_values_are_marked_is_no_text() -> None:
    """An erasure by "list" or "piece" reaches nobody's pictures."""
    divided = divide("world.seen", {"a": ["x" * 1_500_000, {"b": [1, 2, 3, 4, [5, 1e22]]}]})

    for word in ("run", "list", "object", "piece", "repeated", "ends", "value", "number"):
        assert not any(event_says(EventKind.VALUE_PART, part, word) for part in divided.parts), word


def test_what_is_read_of_a_reflection_stays_in_its_event() -> None:
    """However large it is: an erasure finds by it what rests on an erased event."""
    read = {
        "belief": "Piers are red. " * 10_000,
        "based_on": [str(uuid4()) for _ in range(6_000)],
        "rests_on": [str(uuid4()) for _ in range(6_000)],
        "replaces": str(uuid4()),
        "contradicts": [str(uuid4()) for _ in range(2_000)],
    }
    payload = {**read, "small": 1, "transcript": "x" * 1_100_000, "memory.redactions": {"x" * 64: 1}}

    divided = divide("agent.reflected", payload)

    assert divided.payload.keys() == {*read, "memory.redactions", "memory.divided"}
    assert put_together(divided.payload, divided.parts) == payload
    # Another kind may mean anything by the same names.
    assert divide("world.seen", payload).payload.keys() & payload.keys() == {"small", "replaces", "memory.redactions"}


@pytest.mark.parametrize("rest", ["", "x" * 1_100_000])
def test_a_reflection_that_names_too_much_is_refused(rest: str) -> None:
    """With what to do about it, and without a word of what it says."""
    payload = {"belief": "Piers are red.", "based_on": [str(uuid4()) for _ in range(27_000)], "transcript": rest}

    with pytest.raises(InvalidInputError, match=r"based_on, belief in the payload of 'agent\.reflected' take 1,080,"):
        divide("agent.reflected", payload)


def test_many_small_values_are_few_parts_and_numbers_in_them_are_found() -> None:
    """Runs of numbers are one text; an erasure reads them as it reads those of a small payload."""
    numbers = [[n, n / 7, n % 2 == 0, None, -0.0, 1e-9 * n, 10 ** (n % 40)] for n in range(40_000)]
    payload = {"numbers": numbers, "phone": [38_512_345_678, "x"], "digits": [10**4_000 + n for n in range(300)]}

    divided = divide("world.seen", payload)

    stored = [_stored(part) for part in divided.parts]
    assert put_together(_stored(divided.payload), stored) == payload
    assert sum(len(part["parts"]) for part in stored) < 1_000
    for part in divided.parts:
        assert len(json.dumps(part, ensure_ascii=False).encode()) <= MAX_EVENT_PAYLOAD_BYTES
    as_spelled = [json.loads(json.dumps(part), parse_int=str, parse_float=str) for part in divided.parts]
    for number in ("39999", "100000000000000000000000000000000000000", str(10**4_000 + 7)):
        assert any(event_says(EventKind.VALUE_PART, part, number) for part in as_spelled), number
    assert not any(event_says(EventKind.VALUE_PART, part, "39999, ") for part in as_spelled)


@given(value=_VALUES)
@example(value={"é\x00\ud800": [True, False, None, [], {}, -0.0, 1e22, 2**80, '"\\\n\x1f🛳']})
def test_bytes_are_counted_as_they_are_written(value: Any) -> None:
    """Without writing them."""
    written = json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
    assert count_json_bytes(value) == len(written)
