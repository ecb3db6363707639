"""What a model of the OpenAI Agents SDK is shown of a memory: before its calls, and by tools."""

from __future__ import annotations

import json
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

from agent_reminiscence.beside import ExternalId, SharedIds, retrieve_beside, shared_ids
from agent_reminiscence.config.extras import require
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.retrieval import RetrievalResult, SearchHit, search_text
from agent_reminiscence.exceptions import ExternalIdNotFoundError, InvalidInputError, ReminiscenceError
from agent_reminiscence.integrations.openai_agents.arguments import check_memory, check_selection, check_token_budget
from agent_reminiscence.integrations.openai_agents.messages import role_of, text_of
from agent_reminiscence.services import validation

if TYPE_CHECKING:
    from agents import FunctionTool, TResponseInputItem
    from agents.run_config import CallModelData, ModelInputData
    from agents.tool_context import ToolContext

type OnError = Literal["ignore", "raise"]

_logger = logging.getLogger("agent_reminiscence.integrations")

_MAX_QUERY_CHARACTERS: Final = 20_000
# What an application may put behind the newest user message before the first model call.
_INSTRUCTIONS: Final = ("system", "developer")
_MAX_QUESTIONS_KEPT: Final = 256
# How many of the best passages may be shown. A search asks for one more for each message in the input, because these
# may be among what it finds; 200 is the most that it returns.
_MAX_PASSAGES: Final = 100
_MAX_HITS: Final = 200
# A shorter text says little without its title or the turns around it, and may occur in a message by chance.
_UNMISTAKABLE_CHARACTERS: Final = 20


def recall_filter(
    memory: AgentMem,
    external_id: ExternalId | Callable[[CallModelData[Any]], ExternalId],
    *,
    token_budget: int = 1_200,
    min_match: float | Literal["found"] | None = "found",
    where: Filter | None = None,
    on_error: OnError = "ignore",
    shared: SharedIds | Callable[[CallModelData[Any]], SharedIds] = (),
    timezone: str | Callable[[CallModelData[Any]], str] | None = None,
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """A `call_model_input_filter` that shows the model what memory holds about the newest user message.

    It searches once for each user message, not again in the round trips of tools. What it finds stands fenced, as data,
    in a user message of its own before that one; the SDK does not store it in a session. Passages that the model is
    shown anyway, because they stand in its input, are left out, and take nothing of the budget.

    Args:
        external_id: Whose memory, or a function that says so for each call, from `data.context`.
        token_budget: Maximum tokens of what is shown.
        min_match: Which passages are shown: those with at least this `match`, 0 to 1; "found" shows them only if the
            result is `found`, and where a weak match says little (`tells_weak`); None always shows whatever comes
            closest. What always holds is shown in any case.
        where: Only passages that this filter admits.
        on_error: "ignore" sends the input unchanged if memory cannot be searched, and logs that; "raise" ends the run.
        shared: Up to 15 further memories, such as the team's, or a function that names them for each call. They are
            read beside the own one and ranked together with it. The own one may be empty; a shared one that nothing was
            ever stored for ends the run with an `ExternalIdNotFoundError` that names it, whatever `on_error` says.
        timezone: Where the user is, as an IANA name such as Europe/Lisbon, or a function that says so for each call:
            what "yesterday" means, and which days are shown. None uses the setting of `memory`.

    Raises:
        ConfigurationError: openai-agents is not installed.
        InvalidInputError: `memory` is not an `agent_reminiscence.AgentMem`, `token_budget` is not a whole number from
            1, `min_match` is not a number from 0 to 1, `where` is not a `Filter`, `on_error` is unknown, or `shared` is
            not a list of `external_id`s, or too long.
    """
    require("openai-agents", "recall_filter")
    from agents.run_config import ModelInputData

    check_memory(memory, "recall_filter")
    check_token_budget(token_budget)
    check_selection(min_match, where)
    if on_error not in ("ignore", "raise"):
        raise InvalidInputError(f"on_error must be 'ignore' or 'raise', not {on_error!r}")
    beside = _checked_shared(shared, external_id)
    if not callable(timezone):
        validation.optional_timezone(timezone)
    found: OrderedDict[tuple[str, tuple[str, ...], str, str | None], RetrievalResult | None] = OrderedDict()

    async def search(
        tenant: ExternalId, others: tuple[str, ...], question: str, messages: int, zone: str | None
    ) -> RetrievalResult | None:
        try:
            return await retrieve_beside(
                memory,
                tenant,
                others,
                question[:_MAX_QUERY_CHARACTERS],
                limit=min(_MAX_PASSAGES + messages, _MAX_HITS),
                min_match=min_match,
                where=where,
                timezone=zone,
                synthesis=False,
            )
        except ExternalIdNotFoundError:
            # A mistake of the program, which nobody would notice in the answers.
            raise
        except ReminiscenceError as error:
            if on_error == "raise":
                raise
            _logger.warning("nothing is recalled for a model call: %s", type(error).__name__)
            return None

    async def recall(data: CallModelData[Any]) -> ModelInputData:
        items = data.model_data.input
        index = next((n for n in reversed(range(len(items))) if role_of(items[n]) == "user"), None)
        question = "" if index is None else text_of(items[index])
        if index is None or not question.strip():
            return data.model_data
        tenant = external_id(data) if callable(external_id) else external_id
        others = shared_ids(beside(data) if callable(beside) else beside, tenant)
        zone = timezone(data) if callable(timezone) else timezone
        key = (str(tenant), others, question, zone)
        is_first = all(role_of(item) in _INSTRUCTIONS for item in items[index + 1 :])
        if is_first or key not in found:
            messages = sum(role_of(item) is not None for item in items)
            found[key] = await search(tenant, others, question, messages, zone)
            while len(found) > _MAX_QUESTIONS_KEPT:
                found.popitem(last=False)
        prompt = _prompt(found[key], items[: index + 1], token_budget)
        if not prompt:
            return data.model_data
        recalled: TResponseInputItem = {"role": "user", "content": prompt}
        return ModelInputData(
            input=[*items[:index], recalled, *items[index:]], instructions=data.model_data.instructions
        )

    return recall


def memory_tools(
    memory: AgentMem,
    external_id: ExternalId | Callable[[ToolContext[Any]], ExternalId],
    *,
    token_budget: int = 1_200,
    min_match: float | None = None,
    where: Filter | None = None,
    shared: SharedIds | Callable[[ToolContext[Any]], SharedIds] = (),
    timezone: str | Callable[[ToolContext[Any]], str] | None = None,
) -> list[FunctionTool]:
    """Tools for an agent: `search_memory(query)` and `remember(title, text)`.

    Whose memory they use is settled here, and no argument of theirs. Where memory fails, the model is told that it did,
    and nothing else.

    Args:
        external_id: Whose memory, or a function that says so for each call, from `context.context`.
        token_budget: Maximum tokens of the passages that a search returns.
        min_match: A search returns only passages with at least this `match`, 0 to 1. None returns weak matches, too,
            and says that they are weak.
        where: A search returns only passages that this filter admits.
        shared: Up to 15 further memories, such as the team's, or a function that names them for each call. A search
            reads them beside the own one and ranks them together with it; `remember` never writes into them. The own
            one may be empty; a shared one that nothing was ever stored for ends the run with an
            `ExternalIdNotFoundError` that names it.
        timezone: Where the user is, as an IANA name such as Europe/Lisbon, or a function that says so for each call.
            None uses the setting of `memory`.

    Raises:
        ConfigurationError: openai-agents is not installed.
        InvalidInputError: `memory` is not an `agent_reminiscence.AgentMem`, `token_budget` is not a whole number from
            1, `min_match` is not a number from 0 to 1, `where` is not a `Filter`, or `shared` is not a list of
            `external_id`s, or too long.
    """
    require("openai-agents", "memory_tools")
    from agents import FunctionTool

    check_memory(memory, "memory_tools")
    check_token_budget(token_budget)
    check_selection(min_match, where)
    beside = _checked_shared(shared, external_id)
    if not callable(timezone):
        validation.optional_timezone(timezone)

    async def search(context: ToolContext[Any], tenant: ExternalId, query: str) -> str:
        others = beside(context) if callable(beside) else beside
        return search_text(
            await retrieve_beside(
                memory,
                tenant,
                others,
                query,
                token_budget=token_budget,
                min_match=min_match,
                where=where,
                timezone=timezone(context) if callable(timezone) else timezone,
                synthesis=False,
            )
        )

    async def remember(context: ToolContext[Any], tenant: ExternalId, title: str, text: str) -> str:
        await memory.create_active_memory(
            tenant,
            title,
            text,
            source="agent",
            timezone=timezone(context) if callable(timezone) else timezone,
            idempotency_key=f"tool-{uuid4()}",
        )
        return "Remembered."

    def tool(name: str, description: str, arguments: Mapping[str, str], call: Callable[..., Awaitable[str]]) -> Any:
        async def invoke(context: ToolContext[Any], given: str) -> str:
            tenant = external_id(context) if callable(external_id) else external_id
            try:
                values = json.loads(given)
                return await call(context, tenant, **{name: values[name] for name in arguments})
            except ExternalIdNotFoundError:
                # Of a shared memory: a mistake of the program, which no model can mend.
                raise
            except (ReminiscenceError, ValueError, KeyError, TypeError) as error:
                # Its message may name the tenant.
                _logger.warning("the tool %s failed: %s", name, type(error).__name__)
                return "That did not work: the memory is not available, or an argument is not valid."

        schema = {
            "type": "object",
            "properties": {key: {"type": "string", "description": text} for key, text in arguments.items()},
            "required": list(arguments),
            "additionalProperties": False,
        }
        return FunctionTool(name=name, description=description, params_json_schema=schema, on_invoke_tool=invoke)

    return [
        tool(
            "search_memory",
            "Search what is remembered of earlier conversations and notes.",
            {"query": "What to look for, as a question or in key words."},
            search,
        ),
        tool(
            "remember",
            "Store a note that will be of use in later conversations.",
            {"title": "What it is about, in a few words.", "text": "The note itself, complete and on its own."},
            remember,
        ),
    ]


def _checked_shared[Context](
    shared: SharedIds | Callable[[Context], SharedIds], external_id: ExternalId | Callable[[Context], ExternalId]
) -> tuple[str, ...] | Callable[[Context], SharedIds]:
    """The shared memories, checked as far as they are known before a call."""
    if callable(shared):
        return shared
    return shared_ids(shared, None if callable(external_id) else external_id)


def _prompt(result: RetrievalResult | None, items: Sequence[Any], token_budget: int) -> str:
    """What is shown of a result: the best hits that fit, without those that the model sees in `items` anyway."""
    if result is None:
        return ""
    # No text has blank lines by now, so no passage matches across two messages.
    visible = "\n\n".join(_compact(text_of(item)) for item in items if role_of(item) is not None)
    hits = [hit for hit in result.hits if not _is_visible(hit, f"\n{visible}\n")]
    standing = tuple(hit for hit in result.standing if not _is_visible(hit, f"\n{visible}\n"))
    new = {"hits": tuple(hits[:_MAX_PASSAGES]), "standing": standing}
    return result.model_copy(update=new).as_prompt(token_budget)


def _is_visible(hit: SearchHit, visible: str) -> bool:
    """Whether the messages already say what a hit says.

    The same words may mean something else under the title of a note, so a note must match whole lines. A long turn is
    cut into passages, which may begin and end at any word.
    """
    said = _compact(hit.content.removeprefix(f"{hit.speaker}: "))
    is_short = len(said) < _UNMISTAKABLE_CHARACTERS
    if hit.speaker is None:
        return not is_short and f"\n{said}\n" in visible
    if is_short:
        return f"\n{said}\n" in visible
    return said in visible and re.search(rf"(?<!\w){re.escape(said)}(?!\w)", visible) is not None


def _compact(text: str) -> str:
    """A text without blank lines and without more than one space between words."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
