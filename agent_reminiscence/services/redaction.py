"""Secrets are taken out of what is written before anything keeps it: the ledger, the tiers, hashes, logs and spans.

`Scrubber` does it for every request to write. A request that it has not seen becomes no event: `WriteRequest.event`
refuses it. What the ledger holds was therefore looked at once, by the redactor of its day, and a replay calls none.
"""

from __future__ import annotations

import asyncio
import re
import traceback
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Protocol, runtime_checkable

from agent_reminiscence.domain.event import USER_REDACTIONS_KEY
from agent_reminiscence.exceptions import InvalidInputError, RedactionError
from agent_reminiscence.services.redaction_rules import PLACEHOLDER_START, RULES, Rule, Span, placeholder
from agent_reminiscence.services.requests import AppendRequest, CreateRequest, UpdateRequest, WriteRequest

# Requests with more text are looked through in a thread, so that other tasks go on meanwhile.
_THREAD_FROM_CHARACTERS: Final = 20_000
# What takes the place of one secret may let another one be seen. Each pass takes time in proportion to the text.
_MAX_PASSES: Final = 8
# A redactor's text may be this much longer than twice the given one.
_MAX_GROWTH_CHARACTERS: Final = 10_000
_RULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NUMBER = re.compile(r"[\d\s.-]+")


@dataclass(frozen=True, slots=True)
class Redaction:
    """What a redactor made of a text. It never holds what was taken out.

    Attributes:
        text: The text to store.
        rules: How often each rule has matched; a text that differs from the given one names one at least.
    """

    text: str
    rules: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Redactor(Protocol):
    """Takes out of texts what must not be stored.

    It is called for each string of a write, long ones in a thread, so that several calls may run at a time. It has to
    give the same for the same text, or an idempotency key will not know its request again, and to leave its own
    placeholders as they are.
    """

    def redact(self, text: str) -> Redaction:
        """What is to be stored instead of `text`."""
        ...


class DefaultRedactor:
    """Replaces keys, tokens, private keys, passwords in addresses, card and account numbers by `[redacted:rule]`.

    It goes by prefixes, checksums and telling names, never by how random a text looks; the guide lists all rules.
    Invisible characters inside a secret, full-width letters and digits of other scripts do not hide it.

    >>> DefaultRedactor().redact("The account is DE89 3704 0044 0532 0130 00.")
    Redaction(text='The account is [redacted:iban].', rules={'iban': 1})
    """

    def redact(self, text: str) -> Redaction:
        """`text` with a placeholder in place of each secret; of matches that overlap one for all."""
        rules: Counter[str] = Counter()
        for _ in range(_MAX_PASSES):
            found = _settled(_findings(text))
            if not found:
                break
            pieces, end = [], 0
            for finding in found:
                pieces += [text[end : finding.start], placeholder(finding.rule)]
                end = finding.end
                rules[finding.rule] += 1
            text = "".join([*pieces, text[end:]])
        return Redaction(text, dict(sorted(rules.items())))


class NoRedactor:
    """Leaves every text as it is: `redaction=False`."""

    def redact(self, text: str) -> Redaction:
        """`text` itself."""
        return Redaction(text)


@dataclass(frozen=True, slots=True)
class _Finding:
    start: int
    end: int
    precedence: int
    rule: str


def _findings(text: str) -> Iterator[_Finding]:
    view = _View(text)
    lowered: str | None = None
    for precedence, rule in enumerate(RULES):
        searched = view.text
        if rule.ignores_case:
            # The one character whose lower case is longer would move all that follows it.
            lowered = lowered if lowered is not None else view.text.replace("\u0130", "i").lower()
            searched = lowered
        found: Span = (0, 0)
        for match in _matches(rule, view.text, searched):
            # In one that was found there may be a thousand beginnings more.
            if found[0] <= match.start() < found[1]:
                continue
            span = rule.check(match)
            # One that begins with a placeholder was found before. One that merely holds some is a secret all the same,
            # of which a part was replaced or written over.
            if span is None or view.text.startswith(PLACEHOLDER_START, span[0]):
                continue
            found = span
            start, end = view.original(span)
            yield _Finding(start, end, precedence, rule.name)


def _matches(rule: Rule, text: str, searched: str) -> Iterator[re.Match[str]]:
    """Where the rule's pattern matches in `text`; its literals are looked for in `searched`."""
    if not rule.literals:
        yield from rule.pattern.finditer(text)
        return
    for literal in rule.literals:
        place = searched.find(literal)
        while place >= 0:
            for reach in rule.reach:
                match = rule.pattern.match(text, place - reach) if reach <= place else None
                if match is not None:
                    yield match
                    break
            place = searched.find(literal, place + 1)


def _settled(findings: Iterator[_Finding]) -> list[_Finding]:
    """One finding in place of all that overlap, in the order of the text; the first rule of the table names it."""
    settled: list[_Finding] = []
    for finding in sorted(findings, key=lambda one: (one.start, -one.end, one.precedence)):
        if not settled or finding.start >= settled[-1].end:
            settled.append(finding)
            continue
        last = settled[-1]
        first = min(last, finding, key=lambda one: one.precedence)
        settled[-1] = replace(first, start=last.start, end=max(last.end, finding.end))
    return settled


# What is not seen: characters, and what gives a terminal its colours; and characters that stand for another one, which
# is given here.
_INVISIBLE = re.compile(
    "(?:\x1b\\[[0-9;]{0,16}[A-Za-z]|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff])+"
)
_OTHER_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_OTHER_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"


def _lookalikes() -> dict[int, str]:
    """One plain character for each that NFKC or its value as a digit makes the same as one."""
    table = dict.fromkeys(map(ord, _OTHER_SPACES), " ") | dict.fromkeys(map(ord, _OTHER_HYPHENS), "-")
    for code in (*range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800)):
        plain = unicodedata.normalize("NFKC", chr(code))
        if len(plain) == 1 and plain.isascii():
            table.setdefault(code, plain)
    for code in range(0x0660, 0x1FC00):
        digit = unicodedata.decimal(chr(code), None)
        if digit is not None:
            table.setdefault(code, str(digit))
    return table


_LOOKALIKES = _lookalikes()
_LOOKALIKE_CHARACTERS = frozenset(map(chr, _LOOKALIKES))


class _View:
    """A text as its reader sees it: invisible characters gone, look-alikes plain; and where each stood."""

    def __init__(self, text: str) -> None:
        self.text = text
        # Where characters are left out: the place in the view, and how many were left out up to it.
        self._places: list[int] = []
        self._left_out: list[int] = []
        if text.isascii() and "\x1b" not in text:
            return
        # Asked of the set of its characters, which is far faster than of each.
        characters = set(text)
        if not characters.isdisjoint(_LOOKALIKE_CHARACTERS):
            self.text = text.translate(_LOOKALIKES)
        if "\x1b" in characters or _INVISIBLE.search("".join(characters)):
            left_out = 0
            for match in _INVISIBLE.finditer(self.text):
                self._places.append(match.start() - left_out)
                left_out += match.end() - match.start()
                self._left_out.append(left_out)
            self.text = _INVISIBLE.sub("", self.text)

    def original(self, span: Span) -> Span:
        """The span of the text as it is given, with what is invisible inside it."""
        start, end = span
        return self._place(start), self._place(end - 1) + 1

    def _place(self, place: int) -> int:
        index = bisect_right(self._places, place)
        return place + (self._left_out[index - 1] if index else 0)


class Scrubber:
    """Applies a redactor to all that a request carries: once, before it is hashed, cut into chunks or written."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._name = type(redactor).__name__

    async def scrub[R: WriteRequest](self, request: R) -> R:
        """`request` without secrets, with how often each rule has matched; one that was scrubbed, as it is.

        Raises:
            InvalidInputError: An identifier looks like a secret: it cannot be replaced.
            RedactionError: The redactor has failed.
        """
        if request.redactions is not None:
            return request
        return await self._called(request, self._scrubbed)

    async def scrub_texts(self, texts: Sequence[str]) -> list[str]:
        """Texts that are not written, as somebody else may read them: a model, or the provider of one.

        Raises:
            RedactionError: The redactor has failed.
        """

        def work() -> list[str]:
            return [self._redact(text).text for text in texts]

        return await asyncio.to_thread(work) if sum(map(len, texts)) > _THREAD_FROM_CHARACTERS else work()

    def quotable(self, text: str) -> str | None:
        """A text that is not written, as a span may carry it; None where the redactor fails on it."""
        try:
            return self._redact(text).text
        except RedactionError:
            return None

    def quotable_identifier(self, identifier: str) -> str | None:
        """An identifier as a span may carry it; None where it is refused."""
        try:
            self.check_identifiers(identifier=identifier)
        except (InvalidInputError, RedactionError):
            return None
        return identifier

    def check_identifiers(self, **identifiers: str | None) -> None:
        """Refuse identifiers that would be stored; also of a write whose request is made later, or never.

        Raises:
            InvalidInputError: One looks like a secret.
            RedactionError: The redactor has failed.
        """
        # An identifier is looked up as it is, so a placeholder in its place would make one of many.
        for name, value in identifiers.items():
            # Of the ids of digits alone that look like a card's number every tenth has its checksum.
            if value is None or _NUMBER.fullmatch(value):
                continue
            redaction = self._redact(value)
            if redaction.text != value:
                raise InvalidInputError(
                    f"{name} looks like a secret ({', '.join(redaction.rules)}), and identifiers are stored as they"
                    " are; pass a name that may be known, such as a hash of it"
                )

    async def _called[R: WriteRequest](self, request: R, work: Callable[[R], R]) -> R:
        if _size(request) > _THREAD_FROM_CHARACTERS:
            return await asyncio.to_thread(work, request)
        return work(request)

    def _scrubbed[R: WriteRequest](self, request: R) -> R:
        self.check_identifiers(
            external_id=request.external_id,
            actor=request.actor,
            conversation_id=request.conversation_id,
            idempotency_key=request.idempotency_key,
        )
        texts = _Texts(self._redact)
        changed: dict[str, Any] = {}
        match request:
            case CreateRequest():
                changed = texts.memory(
                    {
                        "title": request.title,
                        "content": request.content,
                        "description": request.description,
                        "metadata": request.metadata,
                    }
                )
            case UpdateRequest():
                changed = {"changes": texts.memory(request.changes)}
            case AppendRequest():
                self.check_identifiers(kind=request.kind)
                if USER_REDACTIONS_KEY in request.payload:
                    raise InvalidInputError(
                        f"payload has the key {USER_REDACTIONS_KEY!r}, under which the ledger says what was redacted;"
                        " leave it out, or rename it"
                    )
                payload = texts.value(request.payload)
                changed = {"payload": payload | ({USER_REDACTIONS_KEY: texts.counts} if texts.counts else {})}
        return replace(request, **changed, redactions=texts.counts)

    def _redact(self, text: str) -> Redaction:
        """What the redactor makes of `text`, checked; no message quotes it."""
        try:
            redaction = self._redactor.redact(text)
        except Exception as error:  # noqa: BLE001 - whatever a user's own may raise
            # From None: the error's own message, and those of its causes, may quote the text.
            raise RedactionError(
                f"the redactor {self._name} failed with {type(error).__name__} at {_place(error)}; nothing was written"
            ) from None
        problem = _problem(text, redaction)
        if problem is not None:
            raise RedactionError(f"the redactor {self._name} {problem}; nothing was written")
        return redaction


def _place(error: Exception) -> str:
    """Where an error was raised, without the text of the line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"


def _problem(text: str, redaction: object) -> str | None:
    """What is wrong with a redactor's answer; None where nothing is."""
    if not isinstance(redaction, Redaction):
        return f"returned a {type(redaction).__name__} instead of a Redaction"
    # Whatever the annotations say, it is somebody else's.
    stored: object = redaction.text
    rules: object = redaction.rules
    if not isinstance(stored, str):
        return f"returned a {type(stored).__name__} as text"
    if not isinstance(rules, Mapping) or not all(map(_is_count, rules.items())):
        return "returned rules that are no mapping of short names (letters, digits, - _ .) to how often they matched"
    if stored == text:
        return None
    if not rules:
        return "changed a text and named no rule"
    if text.strip() and not stored.strip():
        return "left nothing of a text; let it put a placeholder"
    if len(stored) > 2 * len(text) + _MAX_GROWTH_CHARACTERS:
        return "made a text more than twice as long"
    if "\0" in stored:
        return "put a NUL character into a text, which PostgreSQL cannot store"
    try:
        stored.encode()
    except UnicodeEncodeError:
        return "put a lone surrogate into a text, which is not Unicode"
    return None


def _is_count(item: tuple[object, object]) -> bool:
    name, count = item
    return (
        isinstance(name, str)
        and _RULE_NAME.fullmatch(name) is not None
        and isinstance(count, int)
        and not isinstance(count, bool)
        and count > 0
    )


class _Texts:
    """Redacts the strings of one request and counts."""

    def __init__(self, redact: Callable[[str], Redaction]) -> None:
        self._redact = redact
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule has matched so far, by name."""
        return dict(sorted(self._counts.items()))

    def text(self, text: str) -> str:
        """One string."""
        if not text:
            return text
        redaction = self._redact(text)
        if redaction.text == text:
            return text
        self._counts.update(redaction.rules)
        return redaction.text

    def value(self, value: Any) -> Any:
        """A JSON value: its strings and its keys, at any depth. Two keys that become one stay two."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(item) for item in value]
            case dict():
                redacted: dict[str, Any] = {}
                for key, item in value.items():
                    redacted[_free(self.text(key), taken=value.keys() | redacted.keys(), unless=key)] = self.value(item)
                return redacted
        return value

    def memory(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Those of title, content, description and metadata that are given; positions in the content move along."""
        redacted = {name: self.value(value) for name, value in fields.items() if name != "content"}
        if "content" not in fields:
            return redacted
        turns = (fields.get("metadata") or {}).get("turns") or []
        starts = [turn["start"] for turn in turns]
        # Turn by turn, so that each begins where its text does, whatever the redactor puts into it.
        pieces = [fields["content"][start:end] for start, end in pairwise([0, *starts, len(fields["content"])])]
        texts = [self.text(piece) for piece in pieces]
        place = len(texts[0])
        for turn, text in zip((redacted.get("metadata") or {}).get("turns") or [], texts[1:], strict=True):
            turn["start"] = place
            place += len(text)
        return {name: "".join(texts) if name == "content" else redacted[name] for name in fields}


def _free(key: str, *, taken: set[str], unless: str) -> str:
    """`key`, or with a number behind it where another one has become the same."""
    if key == unless:
        return key
    name, number = key, 1
    while name in taken:
        number += 1
        name = f"{key} ({number})"
    return name


def _size(request: WriteRequest) -> int:
    """Roughly how many characters are to be looked through."""
    match request:
        case CreateRequest():
            return len(request.content) + _value_size(request.metadata)
        case UpdateRequest():
            return _value_size(request.changes)
        case AppendRequest():
            return _value_size(request.payload)
    return 0


def _value_size(value: Any) -> int:
    match value:
        case str():
            return len(value)
        case list():
            return sum(map(_value_size, value))
        case dict():
            return sum(len(key) + _value_size(item) for key, item in value.items())
    return 0
