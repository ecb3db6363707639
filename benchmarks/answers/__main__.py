"""Ask a model questions about what was recalled, have a judge compare its answers, and say what they cost in tokens.

    python -m benchmarks.answers --data FOLDER --model openai:gpt-5-mini --questions 75 --budgets 500 1000
    python -m benchmarks.answers --report bench-results/answers.jsonl

FOLDER holds conversations of LoCoMo, or with `--benchmark lifebench` users of LifeBench, as in `locomo.py` and
`lifebench.py`. Everything is written to a file of JSON lines; the same command continues a run that was stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic_ai.models import Model

from agent_reminiscence import Config
from agent_reminiscence.agents.models import resolve_model
from agent_reminiscence.agents.running import close_clients
from agent_reminiscence.exceptions import ConfigurationError
from benchmarks.answers.asking import Asker, Manner, Outcome
from benchmarks.answers.contexts import SYSTEMS, add_contexts, case_key
from benchmarks.answers.costs import Plan, Price, describe, plan
from benchmarks.answers.prompts import prompts_digest
from benchmarks.answers.record import Configuration, Record
from benchmarks.answers.report import print_report
from benchmarks.answers.sample import Case, data_digest, sample
from benchmarks.common import scratch_folder
from benchmarks.conversations import Conversation, load_lifebench, load_locomo
from benchmarks.evidence import BUDGETS
from benchmarks.locomo import ollama_where_needed, set_up

_LOADERS: dict[str, Callable[[Path], list[Conversation]]] = {"locomo": load_locomo, "lifebench": load_lifebench}
_PACKAGE = "agent-reminiscence-ledger"
_DEFAULT_RECORD = Path("bench-results", "answers.jsonl")


@dataclass(frozen=True, slots=True)
class Run:
    """A record with the questions that belong to it."""

    record: Record
    cases: Sequence[Case]

    @property
    def keys(self) -> list[str]:
        """What is to be asked: one after the other, each question of all systems within all budgets."""
        chosen = self.record.start.configuration
        return [
            case_key(case, system, budget)
            for case in self.cases
            for budget in chosen.budgets
            for system in chosen.systems
        ]

    async def recall(self, config: Config) -> None:
        """Record the contexts that are missing; no model is asked."""
        chosen = self.record.start.configuration
        await add_contexts(self.record, self.cases, chosen.systems, chosen.budgets, config)

    def plan(self, price: Price | None, judge_price: Price | None) -> Plan:
        """What remains to be asked, once all contexts are recorded."""
        return plan(self.record, self.keys, price, judge_price)

    async def ask(self, answerer: Model, judge: Model, manner: Manner) -> Outcome:
        """Ask for the answers and verdicts that are missing."""
        return await Asker(self.record, answerer, judge, manner).ask_all(self.keys)


def begin(arguments: argparse.Namespace, made_by: str) -> Run:
    """Choose the questions, and open the record for them.

    Raises:
        SystemExit: The record was begun with another configuration, or the data does not hold what was asked for.
    """
    conversations = _LOADERS[arguments.benchmark](arguments.data)
    if unknown := set(arguments.only or ()) - {one.name for one in conversations}:
        raise SystemExit(f"{arguments.data} has no conversation {', '.join(sorted(unknown))}")
    conversations = [one for one in conversations if not arguments.only or one.name in arguments.only]
    cases = sample(conversations, arguments.questions, arguments.seed, with_unanswerable=arguments.unanswerable)
    configuration = Configuration(
        benchmark=arguments.benchmark,
        data=data_digest(conversations),
        questions=len(cases),
        seed=arguments.seed,
        with_unanswerable=arguments.unanswerable,
        systems=tuple(arguments.systems),
        budgets=tuple(arguments.budgets),
        embedder=arguments.embedder[0],
        model=arguments.model,
        judge=arguments.judge,
        temperature=arguments.temperature,
        max_output_tokens=arguments.max_output_tokens,
        prompts=prompts_digest(),
        package=version(_PACKAGE),
    )
    return Run(Record.open(arguments.out, configuration, made_by), cases)


def is_confirmed(remaining: Plan, *, yes: bool) -> bool:
    """Show what remains to be asked and what it costs, and ask whether to ask it."""
    print(describe((remaining.answers, remaining.verdicts), is_estimate=True))
    print("Tokens are estimated. What a model thinks, and what it is asked again, comes on top.")
    if yes:
        return True
    try:
        return input("Ask? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        print()
        return False


def resolve(choice: str, setting: str) -> Model:
    """The model called `choice`.

    Raises:
        SystemExit: The model does not exist, its provider's client or settings are missing, or `choice` names several,
            so that nobody could say which of them answered.
    """
    if "," in choice:
        raise SystemExit(f"{setting} is {choice!r}; name one model")
    try:
        model = resolve_model(choice, setting=setting, ollama_base_url=Config().ollama_base_url)
    except ConfigurationError as error:
        raise SystemExit(str(error)) from None
    assert model is not None
    return model


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    usual = Manner()
    parser = argparse.ArgumentParser(prog="benchmarks.answers", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--report", type=Path, metavar="FILE", help="summarise this record and ask nothing")
    parser.add_argument("--data", type=Path, help="folder of conversations")
    parser.add_argument("--benchmark", choices=_LOADERS, default="locomo", help="what the data is; default: locomo")
    parser.add_argument("--only", nargs="+", help="names of conversations; default: all")
    parser.add_argument("--questions", type=_positive, help="how many, stratified by category; default: all")
    parser.add_argument("--seed", type=int, default=0, help="chooses the questions; default: 0")
    parser.add_argument("--unanswerable", action="store_true", help="also questions that the data does not answer")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="default: all")
    parser.add_argument(
        "--budgets", nargs="+", type=_positive, default=list(BUDGETS), help="tokens of a context; default: %(default)s"
    )
    parser.add_argument("--embedder", nargs=1, default=["universal"], help="the package's, as in locomo.py")
    parser.add_argument("--postgres-dsn", help="use this migrated, empty database instead of an embedded server")
    parser.add_argument("--model", help="answers the questions, in Pydantic AI's form: provider:model")
    parser.add_argument("--judge", help="compares the answers with the right ones; default: the same model")
    parser.add_argument("--temperature", type=float, help="for both models; default: their provider's")
    parser.add_argument("--max-output-tokens", type=_positive, help="of one reply; default: the provider's limit")
    parser.add_argument("--price", nargs=2, type=float, metavar=("IN", "OUT"), help="of a million tokens")
    parser.add_argument(
        "--judge-price", nargs=2, type=float, metavar=("IN", "OUT"), help="default: --price, if the model is the same"
    )
    parser.add_argument("--out", type=Path, default=_DEFAULT_RECORD, help="the record; default: %(default)s")
    parser.add_argument("--yes", action="store_true", help="ask without a confirmation")
    parser.add_argument("--concurrency", type=_positive, default=usual.concurrency, help="default: %(default)s")
    parser.add_argument("--attempts", type=_positive, default=usual.attempts, help="per request; default: %(default)s")
    parser.add_argument("--timeout", type=float, default=usual.timeout_seconds, help="seconds; default: %(default)s")
    read = parser.parse_args(arguments)
    if read.report is None and (read.data is None or read.model is None):
        parser.error("name --data and --model, or a record to --report")
    if read.report is None and not read.data.exists():
        parser.error(f"--data {read.data} does not exist")
    if len(set(read.budgets)) < len(read.budgets) or len(set(read.systems)) < len(read.systems):
        parser.error("name each budget and each system once")
    if not read.timeout > 0:
        parser.error(f"--timeout must be above 0, not {read.timeout:g}")
    read.judge = read.judge or read.model
    return read


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


async def _ask(run: Run, arguments: argparse.Namespace, manner: Manner, models: tuple[Model, Model]) -> Outcome:
    try:
        return await run.ask(*models, manner)
    finally:
        for model, choice in zip(models, (arguments.model, arguments.judge), strict=True):
            await close_clients(model, choice)


def main() -> None:
    """Recall, confirm, ask, report."""
    arguments = parse()
    if arguments.report is not None:
        finished = Record.read(arguments.report)
        print_report(finished, *_prices(arguments, finished.start.configuration))
        return
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    # Whether they exist is known before anything is written.
    models = (resolve(arguments.model, "--model"), resolve(arguments.judge, "--judge"))
    run = begin(arguments, f"{arguments.model}, judged by {arguments.judge}")
    price, judge_price = _prices(arguments, run.record.start.configuration)
    with (
        scratch_folder("reminiscence-answers-") as folder,
        ollama_where_needed(arguments.embedder, folder) as ollama,
    ):
        asyncio.run(run.recall(set_up(arguments, folder, ollama)[0].config))
    remaining = run.plan(price, judge_price)
    if not remaining.requests:
        print_report(run.record, price, judge_price)
        return
    if not is_confirmed(remaining, yes=arguments.yes):
        raise SystemExit("nothing was asked; the same command continues from here, with --yes without a question")
    manner = Manner(concurrency=arguments.concurrency, attempts=arguments.attempts, timeout_seconds=arguments.timeout)
    outcome = asyncio.run(_ask(run, arguments, manner, models))
    print_report(run.record, price, judge_price)
    if outcome.failures:
        told = "\n".join(f"  {key}: {why[:300]}" for key, why in outcome.failures.items())
        left = f"; {outcome.left:,} more were not asked" if outcome.left else ""
        raise SystemExit(f"\nwithout a verdict{left}; the same command asks again:\n{told}")


def _prices(arguments: argparse.Namespace, chosen: Configuration) -> tuple[Price | None, Price | None]:
    """The prices of the two models; where both are one, so is its price."""
    price = None if arguments.price is None else Price(*arguments.price)
    if arguments.judge_price is not None:
        return price, Price(*arguments.judge_price)
    return price, price if chosen.model == chosen.judge else None


if __name__ == "__main__":
    main()
