"""Makes of a model's answer about a conversation a plan, and says what it would have to write again.

Mended silently: what is stored already is left out, changes of one memory and new memories of one title become one,
missing reasons and titles are filled in, and what is too long is cut. The model is asked again only for what code
cannot know. After the last retry, the rest of the answer is used without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_reminiscence.agents.material import cut
from agent_reminiscence.agents.memory_lines import change_lines, read_lines
from agent_reminiscence.agents.plans import CreateIntent, MemoryUpdatePlan, Said, UpdateIntent
from agent_reminiscence.agents.updater_memories import ShownMemory
from agent_reminiscence.agents.updater_plan import ChangedLine, Forgetting, MemoryUpdate, NewMemory
from agent_reminiscence.config.constants import MAX_TITLE_CHARACTERS
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.remembering import DeletionRequest
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.folding import fold_text

MAX_INTENTS = 20
_MAX_WHY_CHARACTERS = 500
_TITLE_CHARACTERS = 60
_NO_REASON = "The conversation says so."

type Check = Callable[[str, str], None]
type AreKnown = Callable[[Sequence[str]], Awaitable[Sequence[bool]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdaterMaterial:
    """What a model is shown for one tenant, who is never part of its answer.

    Attributes:
        said: The conversation, without what was said off the record.
        shown: The memories that it is compared with; a model refers to them by number, from 1.
        memories: All active memories, read once.
        check: Refuses a title and content that could not be written.
        are_known: Whether each text says only what is stored.
    """

    said: Sequence[Said]
    shown: Sequence[ShownMemory]
    memories: Sequence[ActiveMemory]
    check: Check
    are_known: AreKnown


async def mend_update(update: MemoryUpdate, material: UpdaterMaterial) -> tuple[MemoryUpdatePlan, list[str]]:
    """What of an answer can be used, and what is wrong with the rest, for the model that wrote it.

    A complaint quotes nothing of the material.
    """
    mender = _Mender(material, update.why)
    for number, one in enumerate(update.update, start=1):
        mender.change(f"update {number}", one)
    for number, new in enumerate(update.create, start=1):
        mender.create(f"create {number}", new)
    deletions = mender.deletions(update.delete)
    intents = await mender.intents()
    return MemoryUpdatePlan(intents=intents, deletions=deletions), [*update.complaints, *mender.complaints]


@dataclass(slots=True)
class _Reason:
    """Why a memory is created or changed."""

    whys: list[str] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)

    def add(self, why: str, messages: Iterable[int]) -> None:
        if why and why not in self.whys:
            self.whys.append(why)
        self.messages += [message for message in messages if message not in self.messages]


@dataclass(slots=True)
class _New(_Reason):
    """A memory to create."""

    where: str = ""
    title: str = ""
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Edit(_Reason):
    """What changes in a memory that was shown."""

    where: str = ""
    changed: dict[int, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)


class _Mender:
    """Collects what an answer changes, memory by memory."""

    def __init__(self, material: UpdaterMaterial, why: str) -> None:
        self._material = material
        self._why = why or _NO_REASON
        self._edits: dict[int, _Edit] = {}
        self._new: dict[str, _New] = {}
        self.complaints: list[str] = []

    def change(self, where: str, one: ChangedLine) -> None:
        """Take over a line that changes."""
        shown = self._find(where, one.memory)
        messages = self._messages(where, one.messages)
        if shown is None or messages is None:
            return
        if one.line and one.line not in shown.lines:
            self._complain(where, f"memory {one.memory} was shown without a line {one.line}")
        elif one.line in shown.cut_lines:
            self._complain(where, f"line {one.line} of memory {one.memory} is not shown whole, so it cannot be changed")
        else:
            edit = self._edits.setdefault(one.memory, _Edit(where=where))
            edit.add(one.why, messages)
            first, *more = _lines([one.text]) or [""]
            if one.line:
                edit.changed[one.line] = first
                edit.added += more
            else:
                edit.added += [line for line in (first, *more) if line]

    def create(self, where: str, one: NewMemory) -> None:
        """Take over a new memory; one with the title of another one adds to that."""
        lines = _lines(one.lines)
        if not lines:
            return
        messages = self._messages(where, one.messages)
        if messages is None:
            return
        title = cut(" ".join(one.title.split()) or cut(lines[0], _TITLE_CHARACTERS)[0], MAX_TITLE_CHARACTERS)[0]
        numbers = [number for number, one in enumerate(self._material.shown, start=1) if one.memory.title == title]
        if numbers:
            edit = self._edits.setdefault(numbers[-1], _Edit(where=where))
            edit.add(one.why, messages)
            edit.added += lines
        elif any(memory.title == title for memory in self._material.memories):
            self._complain(where, "a memory with that title exists that is not shown; choose another title")
        else:
            new = self._new.setdefault(title, _New(where=where, title=title))
            new.add(one.why, messages)
            new.lines += lines

    def deletions(self, asked: Sequence[Forgetting]) -> list[DeletionRequest]:
        """What the user asks to have forgotten; only the user's own words count."""
        requests: dict[tuple[str, int], DeletionRequest] = {}
        said = self._material.said
        for number, one in enumerate(asked[:MAX_INTENTS], start=1):
            where = f"delete {number}"
            if not 1 <= one.message <= len(said):
                self._complain(where, f"there is no message {one.message}; there are {len(said)}")
                continue
            message = said[one.message - 1]
            if message.role != "user" or message.is_recalled:
                self._complain(
                    where,
                    f"message {one.message} does not hold the user's own words, and nobody else may ask for a"
                    " deletion; leave it out",
                )
                continue
            # What the user asked for is passed on even if the model is wrong about where it is.
            shown = [self._find(where, memory) for memory in dict.fromkeys(one.memories)]
            memory_ids = tuple(one.memory.id for one in shown if one is not None)
            what = cut(one.what or _NO_REASON, _MAX_WHY_CHARACTERS)[0]
            requests[what, message.message] = DeletionRequest(what=what, memory_ids=memory_ids, message=message.message)
        return list(requests.values())

    async def intents(self) -> list[CreateIntent | UpdateIntent]:
        """The changes, each memory and each title once, without what is stored already."""
        proposed = [
            *(line for edit in self._edits.values() for line in (*edit.changed.values(), *edit.added) if line),
            *(line for new in self._new.values() for line in new.lines),
        ]
        proposed = list(dict.fromkeys(proposed))
        are_known = dict(zip(proposed, await self._material.are_known(proposed), strict=True))
        updates = [self._update(number, edit, are_known) for number, edit in self._edits.items()]
        creates = [self._create(new, are_known) for new in self._new.values()]
        return [one for one in (*updates, *creates) if one is not None][:MAX_INTENTS]

    def _update(self, number: int, edit: _Edit, are_known: Mapping[str, bool]) -> UpdateIntent | None:
        shown = self._material.shown[number - 1]
        memory = shown.memory
        held = {fold_text(line.text) for line in read_lines(memory.content, ()) if line.number not in edit.changed}
        changed: dict[int, str] = {}
        for at, text in edit.changed.items():
            before = fold_text(shown.lines[at].text)
            # A line may be shortened to what is left of it; what another line or memory says is not said twice.
            is_said = fold_text(text) in held or (are_known.get(text, False) and fold_text(text) not in before)
            changed[at] = "" if is_said else text
            held.add(fold_text(text))
        added: list[str] = []
        for text in edit.added:
            if fold_text(text) not in held and not are_known[text]:
                held.add(fold_text(text))
                added.append(text)
        # The last line of a memory may say what is known: else what is no longer true would stay in its place.
        content = change_lines(memory.content, changed, added) or change_lines(memory.content, edit.changed, added)
        if content.split() == memory.content.split():
            return None
        if not content:
            self._complain(
                edit.where,
                f"memory {number} would have no line left; write what is true now, or leave it as it is",
            )
            return None
        if not self._can_be_written(edit.where, memory.title, content):
            return None
        return UpdateIntent(
            memory_id=memory.id,
            expected_version=memory.version,
            title=memory.title,
            content=content,
            why=self._reason(edit),
            messages=tuple(edit.messages),
            replaces=bool(changed),
        )

    def _create(self, new: _New, are_known: Mapping[str, bool]) -> CreateIntent | None:
        lines = [line for line in dict.fromkeys(new.lines) if not are_known[line]]
        content = "\n".join(lines)
        if not lines or not self._can_be_written(new.where, new.title, content):
            return None
        return CreateIntent(title=new.title, content=content, why=self._reason(new), messages=tuple(new.messages))

    def _can_be_written(self, where: str, title: str, content: str) -> bool:
        try:
            self._material.check(title, content)
        except InvalidInputError as error:
            self._complain(where, str(error))
            return False
        return True

    def _reason(self, one: _Reason) -> str:
        return cut(" ".join(one.whys) or self._why, _MAX_WHY_CHARACTERS)[0]

    def _find(self, where: str, number: int) -> ShownMemory | None:
        shown = self._material.shown
        if 1 <= number <= len(shown):
            return shown[number - 1]
        self._complain(where, f"there is no memory {number}; you were shown {len(shown)}")
        return None

    def _messages(self, where: str, numbers: Sequence[int]) -> list[int] | None:
        """The messages a change rests on, as the caller counts them; None if it names none that counts."""
        said = self._material.said
        named = [said[number - 1] for number in numbers if 1 <= number <= len(said)]
        if all(one.is_recalled for one in named):
            # Where only one can be meant, it is.
            named = [one for one in said if not one.is_recalled]
            if len(named) != 1:
                self._complain(where, "`messages` names none that was not recalled; name those that it rests on")
                return None
        return list(dict.fromkeys(one.message for one in named))

    def _complain(self, where: str, what: str) -> None:
        complaint = f"{where}: {what}"
        if complaint not in self.complaints:
            self.complaints.append(complaint)


def _lines(texts: Iterable[str]) -> list[str]:
    """The lines of some texts, without white space around them and without those that have no words."""
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]
