"""The layer of a prompt that asks an agent to reflect, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel

from agent_reminiscence.domain.belief import MAX_BELIEFS, REFLECTED, ReflectionPlan
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_text import event_text
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.folding import fold_text
from agent_reminiscence.text.storable import storable_text
from agent_reminiscence.views.reflection import reflection_payload
from agent_reminiscence.views.visibility import Visibility

FIELD: Final = "reflection"
"""The field of an answer in which an agent reflects."""

_REQUEST: Final = """\
You have seen {number} events since you last wrote down a belief. With your answer, write down in `reflection` up to
{most} beliefs, each on a matter of its own, that still help you when these events are forgotten; none if nothing new
follows. For each:
- `belief`: one sentence that makes sense on its own: names, not "he" or "she"; dates or turns, not "yesterday". Prefer
  what several events show together.
- `based_on`: the numbers of the entries above that it rests on, at least one that is not a belief of yours.
- `replaces`: the number of one of YOUR BELIEFS that it corrects, sharpens or combines, or null.
- `contradicts`: the numbers of other agents' beliefs that cannot be true at the same time.
{readers}"""
_READERS: Final = {
    False: "Only you will read it.",
    True: "All agents will read it: write nothing that you would not tell them.",
}


def checked_answer(output_type: type[BaseModel] | None) -> None:
    """Refuse a type of answers without a place for a reflection.

    Raises:
        InvalidInputError: It lacks the field, or the field is of another type.
    """
    field = None if output_type is None else output_type.model_fields.get(FIELD)
    types = () if field is None else (field.annotation, *get_args(field.annotation))
    if not any(isinstance(one, type) and issubclass(one, ReflectionPlan) for one in types):
        name = "None" if output_type is None else output_type.__name__
        raise InvalidInputError(
            f"ask_to_reflect needs an output_type with a field `{FIELD}: ReflectionPlan | None = None`,"
            f" which {name} lacks"
        )


def write_request(seen: int, *, for_all: bool) -> str:
    """Ask for a reflection on `seen` events.

    Args:
        for_all: Whether other agents will read it.
    """
    return _REQUEST.format(number=f"{seen:,}", most=MAX_BELIEFS, readers=_READERS[for_all])


def payloads_of(
    plan: ReflectionPlan,
    agent_name: str,
    numbered: Sequence[Event],
    shown: Iterable[Event],
    visibility: Visibility,
    *,
    public: bool = False,
) -> list[dict[str, Any]]:
    """The payloads of the reflections that an agent answered with, without those that cannot be used; at most three.

    Numbers that were not shown, or not as what they are given for, are left out. A belief that then rests on nothing
    but beliefs of the agent cannot be used, nor one that the agent holds already, word for word, or has said twice.

    Args:
        numbered: The events by their numbers in the prompt, from 1.
        shown: Every event in the prompt: the belief may repeat any of them. So an erasure of one takes it, too, and who
            does not see one does not read it.
        public: Whether all agents may read it.
    """
    by_number = dict(enumerate(numbered, start=1))
    own = {number for number, event in by_number.items() if event.kind == REFLECTED and event.actor == agent_name}
    others = {number for number, event in by_number.items() if event.kind == REFLECTED and event.actor != agent_name}
    said = {fold_text(event_text(by_number[number])) for number in own}
    rests_on = sorted(str(event.event_id) for event in shown)
    payloads: list[dict[str, Any]] = []
    for each in plan.beliefs:
        based_on = [number for number in dict.fromkeys(each.based_on) if number in by_number]
        # A model may answer anything, also halves of characters.
        belief = " ".join(storable_text(each.belief).split())
        if not belief or fold_text(belief) in said or own.issuperset(based_on):
            continue
        said.add(fold_text(belief))
        payload = reflection_payload(
            agent_name,
            belief,
            [by_number[number].event_id for number in based_on],
            numbered,
            replaces=by_number[each.replaces].event_id if each.replaces in own else None,
            contradicts=[by_number[number].event_id for number in dict.fromkeys(each.contradicts) if number in others],
            visibility=visibility,
            public=public,
        )
        payloads.append(payload | {"rests_on": rests_on})
    return payloads[:MAX_BELIEFS]
