"""docker-compose.yml and its env files; `tests/acceptance/test_compose_stack.py` runs its services."""

from __future__ import annotations

import re
from pathlib import Path

from agent_reminiscence import Config

_ROOT = Path(__file__).parents[3]
_COMPOSE = (_ROOT / "docker-compose.yml").read_text(encoding="utf-8")
_EXAMPLE = (_ROOT / ".env.example").read_text(encoding="utf-8")
_PAGE = (_ROOT / "docs" / "guide" / "servers.md").read_text(encoding="utf-8")
_VARIABLE = re.compile(r"\$\{(\w+)([^}]*)\}")
_ASSIGNMENT = re.compile(r"^(\w+)=(.*)$", re.MULTILINE)
_PORT = re.compile(r"^ +- (\S*:\d+)$", re.MULTILINE)


def test_the_example_names_every_variable_of_the_compose_file_and_no_other() -> None:
    """Who copies the example and fills it in has what the compose file asks for."""
    asked_for = {name for name, _ in _VARIABLE.findall(_COMPOSE)}

    assert asked_for == {name for name, _ in _ASSIGNMENT.findall(_EXAMPLE)}


def test_no_password_has_a_default() -> None:
    """A server that starts without a password of its own is open to whoever has read this repository."""
    passwords = {name: rest for name, rest in _VARIABLE.findall(_COMPOSE) if "PASSWORD" in name}
    examples = {name: value for name, value in _ASSIGNMENT.findall(_EXAMPLE) if "PASSWORD" in name}

    assert len(passwords) == 3
    assert set(passwords.values()) == {":?set it in .env"}
    assert set(examples.values()) == {""}


def test_the_example_shows_the_ports_that_are_used_without_it() -> None:
    """What the example says about ports is what the compose file does."""
    defaults = {name: rest.removeprefix(":-") for name, rest in _VARIABLE.findall(_COMPOSE) if "PORT" in name}

    assert defaults == {name: value for name, value in _ASSIGNMENT.findall(_EXAMPLE) if "PORT" in name}


def test_ports_are_published_on_this_machine_only() -> None:
    """Docker opens the firewall for a published port; without an address, to everybody."""
    ports = _PORT.findall(_COMPOSE)

    assert len(ports) == 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_data_of_postgres_stays_in_its_volume() -> None:
    """Images from PostgreSQL 18 on keep it below another folder; mounted at the old one, a volume would stay empty."""
    image = re.search(r"image: pgvector/pgvector:pg(\d+)$", _COMPOSE, re.MULTILINE)

    assert image is not None
    assert int(image[1]) >= 18
    assert re.search(r"^ +- postgres_data:/var/lib/postgresql$", _COMPOSE, re.MULTILINE)
    assert "PGDATA" not in _COMPOSE


def test_the_example_is_no_configuration_of_the_library() -> None:
    """A copy of it may be named with `--env-file`, too: it must not change what the library does."""
    assert "REMINISCENCE_" not in _EXAMPLE


def test_what_memory_env_may_hold_are_settings_that_the_file_leaves_open() -> None:
    """The example names no setting that there is not, and none that docker-compose.yml decides."""
    named = re.findall(
        r"^#?REMINISCENCE_(\w+)=", (_ROOT / "memory.env.example").read_text(encoding="utf-8"), re.MULTILINE
    )
    decided = set(re.findall(r"^ +REMINISCENCE_(\w+):", _COMPOSE, re.MULTILINE))

    assert named
    assert {name.lower() for name in named} <= Config.model_fields.keys()
    assert not decided & set(named)
    assert {name.lower() for name in decided} <= Config.model_fields.keys()


def test_the_image_has_the_client_of_the_models_that_the_stack_offers() -> None:
    """Models of Ollama and of OpenAI are called with the same one, which no extra brings."""
    image = (_ROOT / "Dockerfile").read_text(encoding="utf-8")
    pins = (_ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")

    assert "--require-hashes -r requirements/image.txt" in image
    assert re.search(r"^openai==", pins, re.MULTILINE)
    # The client of its vectors.
    assert re.search(r"^ollama==", pins, re.MULTILINE)


def test_the_page_speaks_of_every_service() -> None:
    """What the file starts stands in its section of the guide."""
    services = re.findall(r"^  (\w+):$", _COMPOSE.partition("\nservices:")[2].partition("\nconfigs:")[0], re.MULTILINE)
    section = _PAGE.partition("\n## With Docker Compose")[2].partition("\n## ")[0]

    assert len(services) == 5
    assert all(f"`{service}`" in section or f"--wait {service}`" in section for service in services)
