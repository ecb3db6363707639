"""The default redactor: every rule, what looks like a secret and is none, and texts of any kind."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence import DefaultRedactor, InvalidInputError, Redaction, RedactionError, Redactor
from agent_reminiscence.domain.event import USER_REDACTIONS_KEY
from agent_reminiscence.domain.payloads import MemoryCreated
from agent_reminiscence.redaction.passwords import _LANGUAGES
from agent_reminiscence.redaction.redactor import NoRedactor
from agent_reminiscence.redaction.rules import RULES
from agent_reminiscence.services.ledger.requests import (
    AppendRequest,
    ArchiveRequest,
    CreateRequest,
    UpdateRequest,
    WriteRequest,
)
from agent_reminiscence.services.ledger.scrubber import Scrubber
from tests.support.redaction_cases import LOOKALIKES, SECRETS, Secret

_GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "redaction.md").read_text(encoding="utf-8")
_DEFAULT = DefaultRedactor()
_FOUND = [case for case in SECRETS if case.rule is not None]
_CARD = next(case for case in SECRETS if case.rule == "payment-card")
_TOKEN = next(case for case in SECRETS if case.rule == "github-token")


class _Words:
    """A user's own: hides one word, in its own way."""

    def __init__(self, word: str, instead: str = "****") -> None:
        self._word = word
        self._instead = instead

    def redact(self, text: str) -> Redaction:
        found = text.count(self._word)
        return Redaction(text.replace(self._word, self._instead), {"word": found} if found else {})


class _Answering:
    """Gives the same answer to everything, or raises it."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def redact(self, text: str) -> Redaction:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[return-value]


def _create(title: str = "Keys", content: str = "Nothing.", **others: object) -> CreateRequest:
    values = {"description": None, "metadata": {}} | others
    return CreateRequest(external_id="agent-1", title=title, content=content, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", _FOUND, ids=lambda case: case.name)
def test_a_secret_is_replaced_by_the_name_of_its_rule_and_nothing_else_is(case: Secret) -> None:
    """Of the secret nothing is left, what stands around it stays, and it is counted once."""
    redaction = _DEFAULT.redact(case.text)

    assert redaction == Redaction(case.text.replace(case.secret, f"[redacted:{case.rule}]"), {case.rule or "": 1})


@pytest.mark.parametrize("language", sorted(_LANGUAGES))
def test_a_password_is_found_behind_every_word_for_one(language: str) -> None:
    """In each language, however its accents are typed and whatever the case; a word alone is no password."""
    secret = "b1ue" + "Sky7x"
    hidden = "[redacted:password]"
    known = _LANGUAGES[language]
    for word in (*known["words"], *known.get("ambiguous", ())):
        for spelled in {word, word.upper(), unicodedata.normalize("NFD", word)}:
            for said in (":", " : ", "=", *(f" {verb} " for verb in _LANGUAGES[language]["is"])):
                text = f"({spelled}{said}{secret})"

                assert _DEFAULT.redact(text).text == f"({spelled}{said}{hidden})", text
                assert not _DEFAULT.redact(f"{spelled}{said}tangerine").rules


@pytest.mark.parametrize("text", LOOKALIKES)
def test_what_only_looks_like_a_secret_stays_as_it_is(text: str) -> None:
    """Hashes, ids, numbers with a wrong checksum, examples and code are no secrets."""
    assert _DEFAULT.redact(text) == Redaction(text)


def test_precision_and_recall_are_as_the_guide_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The figures of the guide are those of this table."""
    hits = sum(case.secret not in _DEFAULT.redact(case.text).text for case in SECRETS)
    alarms = sum(bool(_DEFAULT.redact(text).rules) for text in LOOKALIKES)
    precision, recall = hits / (hits + alarms), hits / len(SECRETS)

    with capsys.disabled():
        print(  # noqa: T201 - a figure to read
            f"\nredaction: {len(SECRETS)} secrets, {len(LOOKALIKES)} look-alikes:"
            f" precision {precision:.3f}, recall {recall:.3f}"
        )

    said = f"{len(SECRETS)} secrets, put together at run time, and {len(LOOKALIKES)} look-alikes"
    assert f"{said}: precision {precision:.2f}, recall {recall:.2f}." in " ".join(_GUIDE.split())
    assert precision == 1
    assert recall >= 0.95


def test_the_guide_lists_every_rule_in_order() -> None:
    """Who asks what is found reads what the code does."""
    shown: dict[str, list[str]] = {}
    for rule in RULES:
        shown.setdefault(rule.name, []).append(rule.shown)

    assert re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", _GUIDE, re.MULTILINE) == [
        (name, "; ".join(texts)) for name, texts in shown.items()
    ]


def test_every_rule_has_a_case() -> None:
    """A rule without a test may find nothing at all."""
    assert {rule.name for rule in RULES} == {case.rule for case in _FOUND}


def test_several_secrets_of_a_text_are_counted_by_rule() -> None:
    """Each is replaced where it stands."""
    text = f"{_TOKEN.secret} and {_CARD.secret}\nand {_CARD.secret}"

    assert _DEFAULT.redact(text) == Redaction(
        "[redacted:github-token] and [redacted:payment-card]\nand [redacted:payment-card]",
        {"github-token": 1, "payment-card": 2},
    )


def test_where_rules_overlap_the_more_precise_one_names_it() -> None:
    """A token behind a telling name is counted once, as what it is."""
    assert _DEFAULT.redact(f'api_key = "{_TOKEN.secret}"') == Redaction(
        'api_key = "[redacted:github-token]"', {"github-token": 1}
    )


@pytest.mark.parametrize("case", _FOUND, ids=lambda case: case.name)
def test_redacting_twice_changes_nothing(case: Secret) -> None:
    """What was read from a memory may be written again."""
    once = _DEFAULT.redact(case.text).text

    assert _DEFAULT.redact(once) == Redaction(once)


_PEM = next(case.secret for case in SECRETS if case.rule == "private-key" and case.secret.count("\n") > 5)


@pytest.mark.parametrize("note", ["[redacted:x]", "[redacted:private-key]", "a [redacted:iban] b"])
@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_placeholder_within_a_secret_does_not_protect_it(note: str, is_cut_off: bool) -> None:
    """Whoever has edited one line of a key, or knows what ours look like, hides nothing by it."""
    lines = _PEM.splitlines()
    lines = [*lines[:3], note, *lines[4:]]
    text = "\n".join(lines[:-1] if is_cut_off else lines)

    redaction = _DEFAULT.redact(f"Mine:\n{text}\n")

    assert redaction == Redaction("Mine:\n[redacted:private-key]\n", {"private-key": 1})


def test_a_placeholder_within_a_value_does_not_protect_it() -> None:
    """A password is not what is left of it; one that was replaced whole stays as it is."""
    text = 'password = "hunter2[redacted:iban]x", and password = "[redacted:password]"'

    redaction = _DEFAULT.redact(text)

    assert redaction.text == 'password = "[redacted:password]", and password = "[redacted:password]"'
    assert redaction.rules == {"password": 1}


_PIECES = st.lists(
    st.one_of(
        st.sampled_from([case.text for case in SECRETS] + [case.secret for case in SECRETS] + list(LOOKALIKES)),
        st.sampled_from([" ", "\n", "password: ", "=", '"', "4", "[", "]", "\u200b", "-----", "eyJ", "://", "@", ":"]),
        st.text(max_size=12),
    ),
    max_size=12,
)


@given(_PIECES)
@settings(max_examples=100, deadline=None)
def test_any_text_is_settled_by_one_redaction(pieces: list[str]) -> None:
    """Whatever stands beside what: a second redaction finds nothing more, and counts agree with placeholders."""
    text = "".join(pieces)

    redaction = _DEFAULT.redact(text)

    assert _DEFAULT.redact(redaction.text) == Redaction(redaction.text)
    assert (redaction.text == text) == (not redaction.rules)


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_unicode_is_looked_through_without_an_error(text: str) -> None:
    """Surrogates, marks and unassigned characters included."""
    assert isinstance(_DEFAULT.redact(text), Redaction)


def test_only_one_character_grows_in_lower_case() -> None:
    """Positions in a text in lower case are those of the text, but for the character that is treated first."""
    growing = [chr(code) for code in range(sys.maxunicode + 1) if len(chr(code).lower()) != 1]

    assert growing == ["\u0130"]
    assert _DEFAULT.redact("\u0130" * 9 + "PASSWORD: b1ue7sky") == Redaction(
        "\u0130" * 9 + "PASSWORD: [redacted:password]", {"password": 1}
    )


def test_invisible_characters_around_a_secret_stay() -> None:
    """Emoji are joined by one of them; nothing but the secret is replaced."""
    family = "\U0001f469\u200d\U0001f467"

    assert _DEFAULT.redact(f"{family} {_TOKEN.secret} {family}").text == f"{family} [redacted:github-token] {family}"


def test_digits_of_other_scripts_are_digits() -> None:
    """A card's number in Arabic-Indic digits is one."""
    arabic = "".join(unicodedata.lookup(f"ARABIC-INDIC DIGIT {unicodedata.name(c)[6:]}") for c in _CARD.secret)

    assert _DEFAULT.redact(arabic).rules == {"payment-card": 1}


@pytest.mark.parametrize(
    "piece",
    [
        "4",
        "4111 ",
        "eyJ",
        "eyJabcdefghijk.",
        "-----BEGIN PRIVATE " + "KEY-----\n",
        "Comment: -----BEGIN PRIVATE " + "KEY-----\n",
        "/ops_eyJ",
        "://a:",
        "password=",
        'key="',
        "DE12 ",
    ],
)
def test_no_pattern_grows_faster_than_its_text(piece: str) -> None:
    """Many beginnings are looked through; a pattern that tries each pair of them would take hours."""
    text = piece * (300_000 // len(piece))

    assert isinstance(_DEFAULT.redact(text), Redaction)


# What a request carries ---------------------------------------------------------------------------------------------


async def test_all_texts_of_a_new_memory_are_redacted() -> None:
    """Title, content, description, and the keys and strings of metadata at any depth; numbers stay."""
    secret = _TOKEN.secret
    request = _create(
        f"About {secret}",
        f"It is {secret}.",
        description=secret,
        metadata={"speaker": f"Ann {secret}", "deep": [{secret: [secret, 7, None, True]}]},
    )

    scrubbed = await Scrubber(_DEFAULT).scrub(request)

    hidden = "[redacted:github-token]"
    assert (scrubbed.title, scrubbed.content, scrubbed.description) == (f"About {hidden}", f"It is {hidden}.", hidden)
    assert scrubbed.metadata == {"speaker": f"Ann {hidden}", "deep": [{hidden: [hidden, 7, None, True]}]}
    assert scrubbed.redactions == {"github-token": 6}
    assert secret not in repr(scrubbed)


async def test_turns_begin_where_their_text_does_after_a_redaction() -> None:
    """Placeholders are shorter or longer than what they replace; each turn keeps its words and its speaker."""
    said = [f"Ann: take {_TOKEN.secret}\n", "Bob: thanks\n", f"Ann: or {_CARD.secret}"]
    starts = [0, len(said[0]), len(said[0] + said[1])]
    turns = [{"start": start, "speaker": line[:3]} for start, line in zip(starts, said, strict=True)]

    scrubbed = await Scrubber(_DEFAULT).scrub(_create(content="".join(said), metadata={"turns": turns}))

    content, starts = scrubbed.content, [turn["start"] for turn in scrubbed.metadata["turns"]]
    assert [content[start : start + 4] for start in starts] == ["Ann:", "Bob:", "Ann:"]
    assert content == "Ann: take [redacted:github-token]\nBob: thanks\nAnn: or [redacted:payment-card]"


async def test_keys_that_become_the_same_stay_two() -> None:
    """No value is lost to a placeholder."""
    first, second = (case.secret for case in _FOUND if case.rule == "google-oauth-token")

    scrubbed = await Scrubber(_DEFAULT).scrub(_create(metadata={first: 1, second: 2}))

    assert scrubbed.metadata == {"[redacted:google-oauth-token]": 1, "[redacted:google-oauth-token] (2)": 2}


async def test_changes_of_an_update_are_redacted() -> None:
    """What is not changed is not looked at."""
    request = UpdateRequest(
        external_id="agent-1", memory_id=uuid4(), changes={"content": f"Now {_TOKEN.secret}"}, expected_version=None
    )

    scrubbed = await Scrubber(_DEFAULT).scrub(request)

    assert scrubbed.changes == {"content": "Now [redacted:github-token]"}


async def test_an_event_says_in_its_payload_what_was_redacted() -> None:
    """A user's payload has no field for it, so a key of ours is added."""
    request = AppendRequest(external_id="agent-1", kind="world.observed", payload={"saw": [_TOKEN.secret]})

    scrubbed = await Scrubber(_DEFAULT).scrub(request)

    assert scrubbed.payload == {"saw": ["[redacted:github-token]"], USER_REDACTIONS_KEY: {"github-token": 1}}


async def test_a_payload_with_our_key_is_refused() -> None:
    """What the ledger says of itself cannot be passed in."""
    request = AppendRequest(external_id="agent-1", kind="world.observed", payload={USER_REDACTIONS_KEY: {}})

    with pytest.raises(InvalidInputError, match=r"payload has the key 'memory\.redactions'"):
        await Scrubber(_DEFAULT).scrub(request)


@pytest.mark.parametrize("name", ["external_id", "actor", "conversation_id", "idempotency_key"])
async def test_an_identifier_that_looks_like_a_secret_is_refused(name: str) -> None:
    """A placeholder in its place would be the id of many; the message names the rule, not the secret."""
    identifiers: dict[str, Any] = {"external_id": "agent-1", name: _TOKEN.secret}
    request = ArchiveRequest(memory_id=uuid4(), end_chunks=False, **identifiers)

    with pytest.raises(InvalidInputError, match=rf"{name} looks like a secret \(github-token\)") as refused:
        await Scrubber(_DEFAULT).scrub(request)

    assert _TOKEN.secret not in str(refused.value)


async def test_a_kind_that_looks_like_a_secret_is_refused() -> None:
    """An erasure leaves the kind of an event as it is."""
    token = next(case.secret for case in _FOUND if case.rule == "databricks-token")
    request = AppendRequest(external_id="agent-1", kind=f"world.{token}", payload={})

    with pytest.raises(InvalidInputError, match=r"kind looks like a secret \(databricks-token\)"):
        await Scrubber(_DEFAULT).scrub(request)


async def test_an_identifier_of_digits_is_taken_whatever_its_checksum() -> None:
    """Of the ids with as many digits as a card has, every tenth would be refused."""
    request = ArchiveRequest(external_id=_CARD.secret, memory_id=uuid4(), end_chunks=False)

    assert (await Scrubber(_DEFAULT).scrub(request)).redactions == {}


async def test_what_was_scrubbed_is_not_scrubbed_again() -> None:
    """A request passes several places that make sure of it."""
    scrubber = Scrubber(_DEFAULT)
    once = await scrubber.scrub(_create(content=_TOKEN.secret))

    assert await scrubber.scrub(once) is once


async def test_the_hash_of_a_request_is_of_what_is_stored() -> None:
    """Two requests that differ in a secret alone are the same one, and no hash gives a secret away."""
    scrubber = Scrubber(_DEFAULT)
    tokens = [case.secret for case in _FOUND if case.rule == "github-token"][:2]

    first, second = [(await scrubber.scrub(_create(content=f"It is {token}"))).hash() for token in tokens]

    assert first == second == (await scrubber.scrub(_create(content="It is [redacted:github-token]"))).hash()


@pytest.mark.parametrize(
    "request_",
    [
        _create(),
        ArchiveRequest(external_id="agent-1", memory_id=uuid4(), end_chunks=False),
        AppendRequest(external_id="agent-1", kind="world.observed", payload={}),
        WriteRequest(external_id="agent-1", actor="Ann"),
        WriteRequest(external_id="agent-1", conversation_id="one"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_no_redactor_has_seen_becomes_no_event(request_: WriteRequest) -> None:
    """A new way to write cannot forget it."""
    with pytest.raises(RuntimeError, match="must be redacted before it is written"):
        request_.event("memory.created", {}, datetime.now())  # noqa: DTZ005 - never reached


async def test_with_redaction_off_everything_stays() -> None:
    """Off is off, for identifiers too."""
    scrubbed = await Scrubber(NoRedactor()).scrub(_create(content=_TOKEN.secret, actor=_TOKEN.secret))

    assert (scrubbed.content, scrubbed.redactions) == (_TOKEN.secret, {})


# A user's own --------------------------------------------------------------------------------------------------------


async def test_a_redactor_of_the_users_own_decides_alone() -> None:
    """Its text and its names are taken as they are, and the default rules are not asked."""
    redactor: Redactor = _Words("Rosebud", "the sledge")

    scrubbed = await Scrubber(redactor).scrub(_create(content=f"Rosebud! {_TOKEN.secret}"))

    assert (scrubbed.content, scrubbed.redactions) == (f"the sledge! {_TOKEN.secret}", {"word": 1})


async def test_texts_for_a_model_are_redacted_each_and_together_beside_the_event_loop() -> None:
    """Many short ones are as long as one long one."""
    threads: set[int] = set()

    class Threads:
        def redact(self, text: str) -> Redaction:
            threads.add(threading.get_ident())
            return _DEFAULT.redact(text)

    texts = [f"My token is {_TOKEN.secret}.", *["Nothing of the kind."] * 2_000]

    scrubbed = await Scrubber(Threads()).scrub_texts(texts)

    assert scrubbed == ["My token is [redacted:github-token].", *texts[1:]]
    assert threads.isdisjoint({threading.get_ident()})


async def test_a_long_text_is_redacted_beside_the_event_loop() -> None:
    """Other tasks go on while it is looked through."""
    running: list[bool] = []

    class Noting:
        def redact(self, text: str) -> Redaction:
            try:
                asyncio.get_running_loop()
                running.append(True)
            except RuntimeError:
                running.append(False)
            return Redaction(text)

    await Scrubber(Noting()).scrub(_create(content="a word " * 5_000))

    assert running
    assert not any(running)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ValueError("the text was: hush"), r"failed with ValueError at test_redactor\.py:\d+"),
        ("hush", "returned a str instead of a Redaction"),
        (None, "returned a NoneType instead of a Redaction"),
        (Redaction(None), "returned a NoneType as text"),  # type: ignore[arg-type]
        (Redaction("****"), "changed a text without naming a rule"),
        (Redaction("", {"word": 1}), "removed a whole text"),
        (Redaction("****", {"the word hush": 1}), "rules that do not map short names"),
        (Redaction("****", {"word": 0}), "rules that do not map short names"),
        (Redaction("****", ["word"]), "rules that do not map short names"),  # type: ignore[arg-type]
        (Redaction("*" * 20_000, {"word": 1}), "more than twice as long"),
        (Redaction("\0", {"word": 1}), "NUL character"),
        (Redaction("\ud800", {"word": 1}), "lone surrogate"),
    ],
)
async def test_a_redactor_that_fails_is_named_and_no_text_is_quoted(answer: object, message: str) -> None:
    """Nobody stores a text that could not be looked through, and no log shows it."""
    with pytest.raises(RedactionError, match=message) as failed:
        await Scrubber(_Answering(answer)).scrub(_create(content="hush"))

    assert "_Answering" in str(failed.value)
    assert "nothing was written" in str(failed.value)
    assert "hush" not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None or failed.value.__suppress_context__


# What the ledger says ------------------------------------------------------------------------------------------------


def test_a_payload_without_redactions_is_as_it_always_was() -> None:
    """Digests of older events stay what they are, and older payloads are read."""
    payload: dict[str, Any] = {
        "memory_id": str(uuid4()),
        "title": "Tea",
        "content": "Green.",
        "description": None,
        "metadata": {},
        "chunks": [],
        "consolidation_due": False,
        "form_version": 1,
    }

    assert MemoryCreated.model_validate(payload).model_dump(mode="json") == payload


def test_rule_names_are_words_that_fit_a_placeholder() -> None:
    """They stand in texts, in payloads and in reports."""
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name) for rule in RULES)
