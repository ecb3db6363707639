"""An agent's manifest: its defaults, and where it is read from."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_reminiscence.config.installation import install_command
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.views import AgentManifest, MemoryManifest, SalienceWeights
from tests.support.extras import run_without

TOML = """
name = "mara"
identity = "You are Mara."

[memory]
window = 12
use_salience = true
reflection_threshold = 20

[memory.weights]
recency = 0.5
kinds = { "dice.rolled" = 0.1 }
"""
YAML = """
name: mara
identity: You are Mara.
memory:
  window: 12
  use_salience: true
  reflection_threshold: 20
  weights:
    recency: 0.5
    kinds: {dice.rolled: 0.1}
"""
MARA = AgentManifest(
    name="mara",
    identity="You are Mara.",
    memory=MemoryManifest(
        window=12,
        use_salience=True,
        reflection_threshold=20,
        weights=SalienceWeights(recency=0.5, kinds={"dice.rolled": 0.1}),
    ),
)


def test_the_defaults() -> None:
    """A window of 8, no salience, no reflection."""
    memory = AgentManifest(name="mara").memory
    assert (memory.window, memory.use_salience, memory.reflection_threshold) == (8, False, None)
    assert memory.weights == SalienceWeights(relevance=0.30, recency=0.40, importance=0.30, decay=0.1)


@pytest.mark.parametrize(("name", "text"), [("mara.toml", TOML), ("mara.yaml", YAML), ("mara.YML", YAML)])
def test_a_manifest_is_read_from_a_file(name: str, text: str, tmp_path: Path) -> None:
    """In both languages the same."""
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    assert AgentManifest.load(file) == MARA


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mara.toml", "name = ", "is not valid TOML"),
        ("mara.yaml", "name: [", "is not valid YAML"),
        ("mara.yaml", "!!python/object/apply:os.getcwd []", "is not valid YAML"),
        ("mara.yaml", "- mara", "the whole: "),
        ("mara.toml", "name = ' '", "is not a valid agent manifest: name: "),
        ("mara.toml", "name = 'mara'\n[memory]\nwindow = 0", "memory.window: "),
        ("mara.toml", "name = 'mara'\n[memory]\nwindow = true", "memory.window: "),
        ("mara.toml", "name = 'mara'\n[memory]\nreflection_threshold = 0", "memory.reflection_threshold: "),
        ("mara.toml", "name = 'mara'\n[memory.weights]\nnovelty = 1", "memory.weights.novelty: "),
        ("mara.json", "{}", "ends in '.json'; use .toml, .yaml or .yml"),
    ],
)
def test_a_wrong_manifest_is_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    """The message names the file and the field."""
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message) as caught:
        AgentManifest.load(file)
    assert name in str(caught.value)


def test_a_missing_manifest_is_refused(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(ConfigurationError, match=r"none\.toml' cannot be read"):
        AgentManifest.load(tmp_path / "none.toml")


@pytest.mark.thorough
def test_yaml_without_its_extra_is_refused() -> None:
    """TOML is read without it, and so is everything else in views."""
    program = f"""
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.views import AgentManifest
print(AgentManifest.from_toml({TOML!r}).name)
try:
    AgentManifest.from_yaml({YAML!r}, name="mara.yaml")
except ConfigurationError as error:
    print(error)
"""
    done = run_without("yaml", program=program)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "mara",
        f"mara.yaml is YAML, which needs yaml, which is not installed; run `{install_command('yaml')}`",
    ]
