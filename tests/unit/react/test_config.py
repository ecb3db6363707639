"""Settings come in kebab case from the sections `agent` and `agent-mem`; what is unknown is refused."""

from __future__ import annotations

from typing import Any

import pytest

from agent_reminiscence import ConfigurationError
from agent_reminiscence.react.config import AgentConfig, ReactMemConfig, read_sections
from agent_reminiscence.react.sensitive import KINDS


def test_the_documented_names_and_defaults() -> None:
    """A deployment that sets nothing gets what the documents say."""
    config = ReactMemConfig()

    assert (config.max_iterations, config.working_memory_threshold) == (10, None)
    assert (config.fact_retrieval_top_k, config.episode_retrieval_top_k) == (5, 3)
    assert config.enable_auto_fact_extraction
    assert config.enable_episode_recording
    assert config.memory_mode == "write"
    # Of the loop: no provider that falls silent holds a client for ever.
    assert config.timeout_seconds == 600


def test_a_section_chooses_the_service_and_inherits_from_the_other() -> None:
    """A client changes its configuration, and nothing else."""
    agent = {"max-iterations": 5, "additional-context": "Be brief."}

    plain = read_sections({"agent": agent})
    with_memory = read_sections({"agent": agent, "agent-mem": {"fact-retrieval-top-k": 7, "max_iterations": 6}})

    assert type(plain) is AgentConfig
    assert plain.max_iterations == 5
    assert isinstance(with_memory, ReactMemConfig)
    assert (with_memory.max_iterations, with_memory.fact_retrieval_top_k) == (6, 7)
    assert with_memory.additional_context == "Be brief."
    assert isinstance(read_sections({"agent-mem": None}), ReactMemConfig)


def test_kebab_case_and_snake_case_are_the_same() -> None:
    """One is usual in files, the other in Python."""
    kebab = ReactMemConfig.from_mapping({"enable-auto-fact-extraction": False, "working-memory-threshold": 0.25})
    snake = ReactMemConfig(enable_auto_fact_extraction=False, working_memory_threshold=0.25)

    assert kebab == snake


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"agents": {}}, "unknown section 'agents'"),
        ({"agent": {"max-iteration": 3}}, "max-iteration"),
        ({"agent": {"fact-retrieval-top-k": 3}}, "fact-retrieval-top-k"),
        ({"agent": {"max-iterations": 0}}, "max-iterations"),
        ({"agent-mem": {"memory-mode": "sometimes"}}, "memory-mode"),
        ({"agent-mem": {"working-memory-threshold": 0}}, "working-memory-threshold"),
        ({"agent-mem": {"working-memory-threshold": 1.5}}, "working-memory-threshold"),
        ({"agent-mem": {"memory-tools": ["forgot"]}}, "memory-tools"),
        (
            {"agent-mem": {"allow-sensitive": ["helth"]}},
            "no kind of sensitive facts 'helth'; there are secret, health, ",
        ),
        ({"agent-mem": {"allow-sensitive": "health"}}, "must be a list of kinds, not 'health'; there are secret, "),
        ({"agent": ["max-iterations"]}, "must be a mapping"),
    ],
)
def test_a_mistake_is_named(sections: dict[str, Any], message: str) -> None:
    """A setting with a typing error must not be a setting that does nothing."""
    with pytest.raises(ConfigurationError, match=message):
        read_sections(sections)


def test_the_setting_names_every_kind_that_may_be_allowed() -> None:
    """Its description is written out, because the reference is made from the source."""
    told = ReactMemConfig.model_fields["allow_sensitive"].description or ""
    assert [kind for kind in KINDS if kind not in told.replace(",", "").replace(";", "").split()] == []
