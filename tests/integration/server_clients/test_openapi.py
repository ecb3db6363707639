"""Schemathesis calls every operation with what the document allows, and with what it does not."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.server.rest import openapi
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import CHAT, CHAT_KEY, RUN, Tenant
from tests.support.filled import FilledDatabases
from tests.support.rest import Credentials, grant, serve_rest
from tests.support.scripted import ScriptedModel, answer

_CALLS: Final = 44
# Of each of the two kinds: there is little to vary in some operations, and some take long.
_FEWER_CALLS: Final = {
    "answer": 20,
    "check_erasure": 20,
    "erase": 12,
    "export_events": 6,
    "get_usage": 6,
    "import_events": 20,
    "list_jobs": 6,
    "recall": 30,
    "retry_jobs": 6,
    "verify": 2,
}
_CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
_AUTHORIZED: Final = {"Authorization": "Bearer house"}
# What they take away, nothing after them would find.
_LAST: Final = ("archive_memory", "archive_memory_by_key", "erase")


async def test_two_thousand_calls_are_answered_as_the_document_says(
    test_server: TestServer, filled_databases: FilledDatabases[Tenant]
) -> None:
    """Whatever a client sends: no server error, and only statuses, headers and bodies that the document has."""
    model = ScriptedModel(answer({"answer": "Nobody has said so.", "is_known": False}))
    async with filled_databases.lent() as database:
        memory = AgentMem(
            Config(
                postgres_dsn=SecretStr(dsn(test_server.login(database))),
                embedding_provider="hash",
                embedding_dimension=TEST_DIMENSION,
                worker=False,
            ),
            models=AgentModels(memory_retrieve=model.model, memory_update=model.model),
        )
        credentials = Credentials({"house": grant(filled_databases.contents.external_id)})
        async with serve_rest(memory, credentials=credentials) as rest:
            exported = (await rest.served.client.get("/v1/export", headers=_AUTHORIZED)).content
            caller = _Caller(rest.served.url, filled_databases.contents, exported)
            await asyncio.to_thread(caller.try_all)

    assert not caller.faults, "\n\n".join(caller.faults)
    assert sum(caller.tried.values()) >= 2_000
    # Most operations also did what they are there for, again and again.
    successes = Counter(name for (name, status), number in caller.tried.items() for _ in range(number) if status < 300)
    assert len([name for name, number in successes.items() if number >= 5]) >= 27, successes


class _Caller:
    """Calls all operations.

    Attributes:
        tried: How often which operation was answered with which status.
        faults: What was not as it should be.
    """

    def __init__(self, url: str, tenant: Tenant, exported: bytes) -> None:
        self._url = url
        self._external_id = tenant.external_id
        self._session = requests.Session()
        self._session.auth = self._authorize
        self._is_authorized = True
        # Random ids are found nowhere; half of the calls name what there is.
        self._paths: dict[str, list[str]] = {
            "memory_id": [str(tenant.memory_id), str(tenant.draft_memory_id), str(tenant.archived_memory_id)],
            "conversation_id": [CHAT],
            "run_id": [RUN],
        }
        self._queries: dict[str, list[str]] = {
            "key": [CHAT_KEY],
            "entity": [str(tenant.survivor_id), str(tenant.merged_entity_id), "Ana Sousa"],
            "from_entity": [str(tenant.survivor_id)],
            "to_entity": [str(tenant.parted_entity_id)],
            "after": [str(tenant.memory_id)],
            "where": ['{"actors": ["robot", "clerk"]}', '{"metadata": {"guests": {"$gte": 12}}}'],
        }
        self._bodies: dict[str, Any] = {
            "check_erasure": {"receipt": tenant.receipt.model_dump(mode="json")},
            "import_events": exported,
        }
        self.tried: Counter[tuple[str, int]] = Counter()
        self.faults: list[str] = []

    def try_all(self) -> None:
        """Call each operation many times, with what the document allows and with what it does not."""
        document = openapi()
        found = [one.ok() for one in schemathesis.openapi.from_dict(document).get_all_operations()]
        with self._session:
            for operation in sorted(found, key=lambda one: _id_of(one) in _LAST):
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    self._try(operation, mode)

    def _try(self, operation: APIOperation, mode: GenerationMode) -> None:
        name = _id_of(operation)

        @settings(
            max_examples=_FEWER_CALLS.get(name, _CALLS),
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        def call(case: Case, data: st.DataObject) -> None:
            # Nearly all calls have the credential that they need; what becomes of others is asked elsewhere.
            self._is_authorized = sum(self.tried.values()) % 16 > 0
            if self._is_authorized:
                case.headers.pop("X-External-Id", None)
                case.headers.pop("X-Also-Reads", None)
            if data.draw(st.booleans()):
                self._name_what_is_there(name, case, data)
            response = case.call(base_url=self._url, session=self._session, timeout=120)
            self.tried[name, response.status_code] += 1
            try:
                case.validate_response(response, checks=_CHECKS)
            except* AssertionError as group:
                self.faults += [f"{name}: {error}" for error in group.exceptions]

        call()

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # Here, because Schemathesis takes it out of the headers of a call for which it should be missing.
        if self._is_authorized:
            request.headers.update(_AUTHORIZED)
        return request

    def _name_what_is_there(self, name: str, case: Case, data: st.DataObject) -> None:
        for known, given_there in ((self._paths, case.path_parameters), (self._queries, case.query)):
            for parameter in given_there or {}:
                if parameter in known and not (name == "list_events" and parameter == "after"):
                    given_there[parameter] = data.draw(st.sampled_from(known[parameter]))
        if isinstance(case.body, dict) and "external_ids" in case.body:
            case.body["external_ids"] = [self._external_id]
        if name in self._bodies:
            case.body = self._bodies[name]
        if name.startswith("change_memory"):
            case.headers["If-Match"] = "*"


def _id_of(operation: APIOperation) -> str:
    return str(operation.definition.raw["operationId"])
