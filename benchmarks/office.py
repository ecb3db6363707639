"""A small office for an agent: seven tools, and a model that uses what it is shown and nothing else.

The model reads its request as any model does: the question, the facts and lessons that stand before it, what its tools
returned. It is a script, so what differs between two runs is what they were shown. It knows nothing of how a memory is
written down: it looks for sentences, and for numbers in front of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from benchmarks.asked import Request, request_of, texts_of

RULE: Final = "Every deploy needs the flag --canary"
_README: Final = (
    "# Shop\nThe web shop of the firm, in Python.\n\n## Set-up\nInstall the packages, copy settings.example, and start"
    " the server. Tests run with make test.\n\n## Releases\nA release has a tag and a line in the changelog."
    f" {RULE}; without it the load balancer drops the sessions of customers who are about to pay. Releases are made"
    " on weekdays before noon.\n\n## Help\nAsk in the channel of the shop."
)
_LINES: Final = {"build.log": 100, "tests.log": 60, "status.log": 35}
_CANARY: Final = "Deploy the shop with the flag --canary."
_STAND_IN: Final = "Delivery prices stand in notes-3.txt."
_WRONG: Final = "Invoices for Zurich Trading carry 20 % VAT."
_RIGHT: Final = "Invoices for Zurich Trading carry 0 % VAT."
_CAKES: Final = ("walnut cake", "lemon cake", "carrot cake")


@dataclass(slots=True)
class Office:
    """What the tools read and change.

    Attributes:
        tools: Seven tools.
        ordered: Cakes, in the order in which they were ordered.
        rates: The VAT of invoices, in per cent.
        deploys: How many succeeded.
    """

    tools: FunctionToolset[Any] = field(default_factory=FunctionToolset)
    ordered: list[str] = field(default_factory=list)
    rates: list[int] = field(default_factory=list)
    deploys: int = 0

    def __post_init__(self) -> None:
        for tool in (
            self.list_files,
            self.read_file,
            self.make_invoice,
            self.look_up_colleague,
            self.list_cakes,
            self.order_cake,
            self.deploy,
        ):
            self.tools.add_function(tool, takes_ctx=False)

    def list_files(self) -> str:
        """List the files of the office."""
        return (
            "notes-1.txt, notes-2.txt, notes-3.txt, notes-4.txt, README.md, vat.txt, build.log, tests.log, status.log"
        )

    def read_file(self, name: str) -> str:
        """Read a file.

        Args:
            name: The name of the file, as it is listed.
        """
        if name in _LINES:
            return "\n".join(f"{name} {number:03} all is well, nothing failed" for number in range(_LINES[name]))
        files = {
            "README.md": _README,
            "notes-1.txt": "Minutes of March: the printer is to be replaced.",
            "notes-2.txt": "Keys: ask at the reception. Plants: water them on Mondays.",
            "notes-3.txt": "Delivery to Linz: 40 euros. Delivery to Graz: 55 euros.",
            "notes-4.txt": "Ideas for the autumn fair.",
            "vat.txt": "Customers in Austria: 20 %. Customers in Switzerland, such as Zurich Trading: 0 %.",
        }
        return files.get(name, f"There is no file {name}.")

    def make_invoice(self, customer: str, francs: int, vat_percent: int = 20) -> str:
        """Make out an invoice.

        Args:
            customer: Who is to pay.
            francs: How much, without tax.
            vat_percent: The rate of value added tax.
        """
        self.rates.append(vat_percent)
        return f"The invoice for {customer} is made out: {francs} francs and {vat_percent} % VAT."

    def look_up_colleague(self, name: str) -> str:
        """Look up who somebody is.

        Args:
            name: A first name.
        """
        return f"{name}: {'sales' if name == 'Jana' else 'support'}."

    def list_cakes(self) -> str:
        """List the cakes that the bakery has."""
        return f"There are {', '.join(_CAKES)}."

    def order_cake(self, kind: str) -> str:
        """Order a cake.

        Args:
            kind: One of those that the bakery has.
        """
        self.ordered.append(kind)
        return f"A {kind} is ordered."

    def deploy(self, flags: str = "") -> str:
        """Deploy the web shop.

        Args:
            flags: Flags of the command.
        """
        if "--canary" not in flags:
            return "Refused: deploys like this break the rule in README.md."
        self.deploys += 1
        return "The shop is deployed."


class Clerk:
    """The model.

    Attributes:
        requests: All requests so far.
        model: To pass to a service.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.model = FunctionModel(self._answer, model_name="clerk")

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        request = request_of(messages, info)
        self.requests.append(request)
        if info.output_tools:
            [output] = info.output_tools
            return ModelResponse(parts=[ToolCallPart(output.name, _learn(request.text, output.parameters_json_schema))])
        said = _act(_Seen.of(messages, request.text, {tool.name for tool in info.function_tools}))
        if isinstance(said, str):
            return ModelResponse(parts=[TextPart(said)])
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in said])


type _Calls = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the model sees of a task.

    Attributes:
        question: The last thing that the user said.
        told: What stands before its own first step: instructions, memory and question.
        text: All of it, with what the tools returned.
        done: The calls it has made, as text.
        last: The last result.
        tools: What it may call.
    """

    question: str
    told: str
    text: str
    done: tuple[str, ...]
    last: str
    tools: frozenset[str]

    @classmethod
    def of(cls, messages: Sequence[ModelMessage], text: str, tools: set[str]) -> _Seen:
        first = texts_of(messages[0])
        instructions = text.removesuffix("\n".join(part for message in messages for part in texts_of(message)))
        calls = [part for message in messages for part in message.parts if isinstance(part, ToolCallPart)]
        results = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        return cls(
            question=first[-1],
            told="\n".join([instructions, *first]),
            text=text,
            done=tuple(f"{call.tool_name} {json.dumps(call.args_as_dict())}" for call in calls),
            last=results[-1].model_response_str() if results else "",
            tools=frozenset(tools),
        )

    def has_called(self, name: str, word: str = "") -> bool:
        """Whether it has made such a call, or is told that it has."""
        return any(call.startswith(name) and word in call for call in self.done) or (
            bool(word) and re.search(rf"{name}\(\{{[^}}\n]*{re.escape(word)}", self.text) is not None
        )


def _act(seen: _Seen) -> _Calls | str:
    """The next step, or the answer."""
    for about, act in _ACTS.items():
        if re.search(about, seen.question):
            return act(seen)
    return "Noted."


def _find_delivery(seen: _Seen) -> _Calls | str:
    town = re.findall("Linz|Graz", seen.question)[-1]
    if price := re.search(rf"Delivery to {town}: (\d+ euros)", seen.text):
        return f"Delivery to {town} costs {price[1]}."
    if known := re.search(r"[Dd]elivery prices stand in ([\w.-]+\.txt)", seen.told):
        return [("read_file", {"name": known[1]})]
    if not seen.has_called("list_files"):
        return [("list_files", {})]
    unread = [one for one in re.findall(r"notes-\d\.txt", seen.text) if not seen.has_called("read_file", one)]
    return [("read_file", {"name": unread[0]})] if unread else "There is no price."


def _deploy(seen: _Seen) -> _Calls | str:
    """Look at the files that the user names, then deploy as far as the rule is in sight."""
    if "is deployed" in seen.last:
        return "The shop is deployed."
    knows = RULE in seen.text or _CANARY in seen.told
    if not knows or seen.done:
        for name in ("README.md", "build.log", "tests.log", "status.log"):
            if not seen.has_called("read_file", name):
                return [("read_file", {"name": name})]
    if "Refused" in seen.last:
        return [("read_file", {"name": "README.md"})]
    return [("deploy", {"flags": "--canary" if knows else ""})]


def _invoice(seen: _Seen) -> _Calls | str:
    """By the rate that it is told; where it is told two, it looks it up."""
    amounts = re.findall(r"(\d+) francs", seen.question)
    open_ones = [amount for amount in amounts if not seen.has_called("make_invoice", f'"francs": {amount}')]
    if not open_ones:
        return seen.last
    told = {int(rate) for rate in re.findall(r"Zurich Trading carry (\d+) % VAT", seen.told)}
    if looked_up := re.search(r"Zurich Trading: (\d+) %", seen.text):
        told = {int(looked_up[1])}
    if len(told) > 1:
        return [("read_file", {"name": "vat.txt"})]
    invoice = {"customer": "Zurich Trading", "francs": int(open_ones[0])}
    return [("make_invoice", invoice | ({"vat_percent": told.pop()} if told else {}))]


def _correct(seen: _Seen) -> _Calls | str:
    """Ask for what the user wants forgotten, if there is a tool for it."""
    if "forget" in seen.tools and not seen.has_called("forget"):
        return [("forget", {"what": _WRONG})]
    return "Noted."


def _tell_team(seen: _Seen) -> _Calls | str:
    """The team that the facts name; of two the later, where the facts are in order of time."""
    teams = re.findall(r"\bworks in (support|sales)\b", seen.told)
    looked_up = re.search(r"Jana: (support|sales)", seen.text)
    if len(set(teams)) > 1 and not _is_in_order(seen.told) and looked_up is None:
        return [("look_up_colleague", {"name": "Jana"})]
    team = looked_up[1] if looked_up else teams[-1] if teams else "no team that I know"
    since = re.search(r"works in sales since ([^.()\n]+)", seen.told)
    return f"You are in {team}{f', since {since[1]}' if since else ''}."


def _order_cake(seen: _Seen) -> _Calls | str:
    """The first cake that nobody is known to be allergic to."""
    if "is ordered" in seen.last:
        return seen.last
    if not seen.has_called("list_cakes"):
        return [("list_cakes", {})]
    allergies = re.findall(r"allergic to (\w+?)s?\b", seen.told)
    cakes = re.findall(r"\w+ cake", seen.last)
    return [("order_cake", {"kind": next(cake for cake in cakes if cake.split()[0] not in allergies)})]


def _chat(seen: _Seen) -> _Calls | str:
    """Keep what the user tells, as eager models do."""
    if "store_fact" in seen.tools and not seen.done:
        told = seen.question.removeprefix("Good morning! ").removesuffix(" How are you?").split(". ")
        return [("store_fact", {"fact_content": f"Jana says: {one.strip('.')}."}) for one in told]
    return "Good morning! I am well, thank you."


_ACTS: Final[Mapping[str, Callable[[_Seen], _Calls | str]]] = {
    "[Dd]elivery": _find_delivery,
    "[Dd]eploy": _deploy,
    "lesson .*wrong": _correct,
    "invoice": _invoice,
    "[Ww]hich team": _tell_team,
    "cake": _order_cake,
    "Good morning": _chat,
}


def _is_in_order(text: str) -> bool:
    """Whether it is told that what stands later counts."""
    return re.search(r"\blater\b[^.\n]*\bcounts\b", text) is not None


def _learn(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to learn from a task: what was said, and what was seen, unless it is known already."""
    fields = schema["properties"]
    facts, lessons = [], []
    # What was known before stands in a part of its own; what the user says, in the transcript.
    said = re.search(r"The user asked: ([^\n]*)", text)
    question = said[1] if said else ""
    if "I moved to sales on Monday" in question:
        facts.append(f"Jana works in sales since {_monday(text)}.")
    if "Invoices for Zurich Trading carry 0 % VAT" in question:
        facts.append(_RIGHT)
    if re.search(r"Delivery to \w+: \d+ euros", text):
        lessons.append(_STAND_IN)
    if "The shop is deployed" in text:
        lessons.append(_CANARY)
    if "is made out" in text and "20 % VAT" in text and _RIGHT not in text:
        lessons.append(_WRONG)
    learned: dict[str, Any] = {
        "facts": facts,
        "success": True,
        "outcome": "It was done.",
        "lessons": [one for one in lessons if text.count(one) == 0],
    }
    if facts and "replaces" in fields:
        over = ("works in support",) if "sales" in question else ()
        learned["replaces"] = _numbers_of(text, over)
    if "lesson on VAT is wrong" in question and "wrong_lessons" in fields:
        learned["wrong_lessons"] = _numbers_of(text, (_WRONG,))
    if "followed_lessons" in fields:
        followed = {_STAND_IN: "notes-3.txt", _CANARY: '"flags": "--canary"', _WRONG: '"vat_percent": 20'}
        steps = text[text.rfind("The user asked") :]
        learned["followed_lessons"] = _numbers_of(
            text, [lesson for lesson, trace in followed.items() if trace in steps]
        )
    return {name: value for name, value in learned.items() if name in fields}


def _monday(text: str) -> str:
    """The Monday before today, as far as it is told which day today is."""
    today = re.search(r"Today is (?:\w+, )?(\d{1,2} \w+ \d{4})", text)
    if today is None:
        return "Monday"
    day = datetime.strptime(today[1], "%d %B %Y")  # noqa: DTZ007 - a day has no zone
    monday = day - timedelta(days=day.weekday() or 7)
    return f"Monday, {monday.day} {monday:%B %Y}"


def _numbers_of(text: str, sentences: Sequence[str]) -> list[int]:
    """The numbers in front of the lines with these sentences, as a model would read them."""
    found = []
    for line in text.splitlines():
        # Behind the tag of a fence, or a bullet.
        number = re.match(r"(?:<\w+>)?\W*(?:lesson |fact )?(\d+)[\].:)]", line.strip(), re.IGNORECASE)
        if number and any(sentence in line for sentence in sentences):
            found.append(int(number[1]))
    return list(dict.fromkeys(found))
