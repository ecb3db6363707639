"""JSON Web Tokens: who is believed, and who is not."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.warnings import InsecureKeyLengthWarning
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from agent_reminiscence.server import ServerConfig
from agent_reminiscence.server.access.authenticators import AnyOf, LocalToken
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.access.jwks import FRESH_SECONDS, PAUSE_SECONDS, USABLE_SECONDS
from agent_reminiscence.server.access.tokens import JwtAuthenticator
from agent_reminiscence.server.problems import ProblemError
from tests.support.guarded import guarded
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, SigningKey, claims, serve_issuer, signing_key
from tests.support.serving import Served, serve

_KEY = signing_key("first")
_LOCAL = "l" * 32


class _Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def _config(issuer: Issuer, **settings: Any) -> ServerConfig:
    return ServerConfig(jwt_jwks_url=issuer.jwks_url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER, **settings)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    """An issuer with one key."""
    async with serve_issuer(_KEY) as issuer:
        yield issuer


@pytest.fixture
def clock() -> _Clock:
    """Says how old the issuer's keys are."""
    return _Clock()


@pytest.fixture
def authenticator(issuer: Issuer, clock: _Clock) -> JwtAuthenticator:
    """Believes that issuer."""
    return JwtAuthenticator(_config(issuer), clock=clock)


@pytest.fixture
async def served(authenticator: JwtAuthenticator) -> AsyncIterator[Served]:
    """A server that believes it, and takes a token of its own."""
    async with serve(guarded(AnyOf([authenticator, LocalToken(_LOCAL)]))) as served:
        yield served


# --- Who is believed -------------------------------------------------------------------------------------------------


async def test_a_token_acts_for_its_subject(served: Served) -> None:
    """With the scopes that its issuer gave it."""
    async with served.with_token(_KEY.sign(claims())) as client:
        answer = await client.get("/v1/whoami")
    assert (answer.status_code, answer.json()) == (200, {"tenant": "ida"})

    async with served.with_token(_KEY.sign(claims(scope="memory:write"))) as client:
        answer = await client.get("/v1/whoami")
    assert (answer.status_code, "memory:read" in answer.json()["detail"]) == (403, True)

    async with served.with_token(_KEY.sign(claims()), {"X-External-Id": "joe"}) as client:
        assert (await client.get("/v1/whoami")).status_code == 403


@pytest.mark.everyday(
    "alg published-*", "no alg published-ES256", why="whether a key names its algorithm is one question for all of them"
)
@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
@pytest.mark.parametrize("named", [True, False], ids=["alg published", "no alg published"])
async def test_each_asymmetric_algorithm_that_is_allowed_is_checked(algorithm: str, named: bool) -> None:
    """Also with a key that does not say what it is for, as some issuers publish them."""
    key = signing_key("any", algorithm)
    async with serve_issuer() as issuer:
        issuer.keys = [key.public() if named else key.public(alg=None, use=None)]
        allowed = JwtAuthenticator(_config(issuer, jwt_algorithms=[algorithm]))
        others = JwtAuthenticator(_config(issuer, jwt_algorithms=["RS512"]))

        grant = await allowed.authenticate(key.sign(claims()))

        assert grant is not None
        assert grant.external_id == "ida"
        assert await others.authenticate(key.sign(claims())) is None


async def test_a_grant_says_what_the_token_says(issuer: Issuer) -> None:
    """Tenant, scopes and end; the subject is one that may be logged."""
    authenticator = JwtAuthenticator(_config(issuer))
    end = datetime(2999, 1, 1, tzinfo=UTC)

    grant = await authenticator.authenticate(
        _KEY.sign(claims(sub="ida@example.org", scope="memory:read other memory:erase", exp=end))
    )

    assert grant is not None
    assert (grant.external_id, set(grant.scopes)) == ("ida@example.org", {Scope.READ, Scope.ERASE})
    assert grant.expires_at == end + timedelta(seconds=30)
    assert grant.subject.startswith("jwt:")
    assert "ida" not in grant.subject
    same = await authenticator.authenticate(_KEY.sign(claims(sub="ida@example.org")))
    other = await authenticator.authenticate(_KEY.sign(claims(sub="joe")))
    assert same is not None
    assert other is not None
    assert (same.subject == grant.subject, other.subject == grant.subject) == (True, False)


@pytest.mark.parametrize(
    ("settings", "said", "tenant", "scopes"),
    [
        ({}, {"scope": ["memory:read", "memory:write", 7]}, "ida", {Scope.READ, Scope.WRITE}),
        ({}, {"scope": "read"}, "ida", set()),
        ({}, {"scope": {"memory:read": True}}, "ida", set()),
        ({}, {"scope": None}, "ida", set()),
        ({"jwt_scopes": ["memory:read"]}, {"scope": None}, "ida", {Scope.READ}),
        ({"jwt_scopes": ["memory:read"]}, {"scope": ""}, "ida", set()),
        ({"jwt_scope_claim": "scp"}, {"scp": "memory:admin"}, "ida", {Scope.ADMIN}),
        ({"jwt_tenant_claim": "org"}, {"org": "acme"}, "acme", {Scope.READ}),
        ({"jwt_tenant_claim": "org"}, {"org": 42}, "42", {Scope.READ}),
        ({}, {"scope": "memory:read memory:delegate"}, None, {Scope.READ, Scope.DELEGATE}),
        ({}, {"aud": ["another", AUDIENCE]}, "ida", {Scope.READ}),
    ],
)
async def test_claims_are_read_as_the_settings_say(
    issuer: Issuer, settings: dict[str, Any], said: dict[str, Any], tenant: str | None, scopes: set[Scope]
) -> None:
    """A delegate names the tenant of each request, so its token names none."""
    grant = await JwtAuthenticator(_config(issuer, **settings)).authenticate(_KEY.sign(claims(**said)))

    assert grant is not None
    assert (grant.external_id, set(grant.scopes)) == (tenant, scopes)


@pytest.mark.parametrize("tenant", [None, "", " ida", "a\nb", "x" * 257, True, ["ida"], {"id": "ida"}])
async def test_a_token_that_names_no_tenant_acts_for_nobody(issuer: Issuer, tenant: object) -> None:
    """And its bearer is told which claim is missing, since the token itself is genuine."""
    authenticator = JwtAuthenticator(_config(issuer, jwt_tenant_claim="org"))

    with pytest.raises(ProblemError, match="the claim 'org' of this token names no tenant") as refused:
        await authenticator.authenticate(_KEY.sign(claims(org=tenant)))
    assert refused.value.status == 403


async def test_clocks_may_differ_a_little(issuer: Issuer) -> None:
    """By the configured seconds, and no more."""
    now = datetime.now(UTC)
    ended = claims(exp=now - timedelta(seconds=100))
    early = claims(nbf=now + timedelta(seconds=100))

    tolerant = JwtAuthenticator(_config(issuer, jwt_leeway_seconds=300))
    strict = JwtAuthenticator(_config(issuer, jwt_leeway_seconds=0))

    for said in (ended, early):
        assert await tolerant.authenticate(_KEY.sign(said)) is not None
        assert await strict.authenticate(_KEY.sign(said)) is None


# --- Who is not ------------------------------------------------------------------------------------------------------


def _segment(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value, default=_number).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(moment: datetime) -> int:
    return int(moment.timestamp())


def _by_hand(headers: dict[str, Any], said: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """A token that no library would make."""
    signed = f"{_segment(headers)}.{_segment(said)}"
    return f"{signed}.{_segment(sign(signed.encode()))}"


def _pem(key: SigningKey) -> bytes:
    return key.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _with_public_key_as_secret(algorithm: str) -> str:
    def sign(text: bytes) -> bytes:
        return hmac.new(_pem(_KEY), text, hashlib.sha256).digest()

    return _by_hand({"alg": algorithm, "kid": "first"}, claims(), sign)


_STRANGER = SigningKey("first", "ES256", signing_key("stranger").private)
_UNKNOWN = signing_key("unknown")
_LATER = datetime.now(UTC) + timedelta(days=1)
_BEFORE = datetime.now(UTC) - timedelta(days=1)
_GOOD = _KEY.sign(claims())
_FORGED = {
    "alg none": _by_hand({"alg": "none", "kid": "first"}, claims(), lambda text: b""),
    "alg None, with a signature": _by_hand({"alg": "None", "kid": "first"}, claims(), lambda text: b"x" * 64),
    "HS256 with the public key": _with_public_key_as_secret("HS256"),
    "ES256 that was made with HS256": _with_public_key_as_secret("ES256"),
    "no alg": _by_hand({"kid": "first"}, claims(), lambda text: b"x" * 64),
    "a list of algs": _by_hand({"alg": ["ES256"], "kid": "first"}, claims(), lambda text: b"x" * 64),
    "another key under the known name": _STRANGER.sign(claims()),
    "a key that the issuer does not have": _UNKNOWN.sign(claims()),
    "an algorithm that is not allowed": signing_key("first", "ES384").sign(claims()),
    "another audience": _KEY.sign(claims(aud="https://another.example")),
    "no audience": _KEY.sign(claims(aud=None)),
    "another issuer": _KEY.sign(claims(iss="https://another.example")),
    "no issuer": _KEY.sign(claims(iss=None)),
    "expired": _KEY.sign(claims(exp=_BEFORE)),
    "never expires": _KEY.sign(claims(exp=None)),
    "a text as its end": _by_hand({"alg": "ES256", "kid": "first"}, claims(exp="never"), lambda text: b"x" * 64),
    "not yet valid": _KEY.sign(claims(nbf=_LATER)),
    "made in the future": _KEY.sign(claims(iat=_LATER)),
    "a changed claim": ".".join([_GOOD.split(".")[0], _segment(claims(sub="joe")), _GOOD.split(".")[2]]),
    "no signature": ".".join([*_GOOD.split(".")[:2], ""]),
    "an unencoded payload": _KEY.sign(claims(), b64=False, crit=["b64"]),
    "an extension that must be understood": _KEY.sign(claims(), crit=["mine"], mine=1),
    "no token": "a.b.c",
    "dots": "..",
    "too long": _KEY.sign(claims(more="x" * 20_000)),
}


@pytest.mark.parametrize("forged", _FORGED.values(), ids=_FORGED.keys())
async def test_a_forged_token_is_refused(served: Served, forged: str) -> None:
    """The answer is the same for all of them; the control is the good one."""
    async with served.with_token(_GOOD) as client:
        assert (await client.get("/v1/whoami")).status_code == 200

    async with served.with_token(forged) as client:
        answer = await client.get("/v1/whoami")

    assert answer.status_code == 401
    assert answer.json()["type"].endswith(":not-authenticated")
    assert forged not in answer.text


@pytest.mark.parametrize("name", ["alg none", "HS256 with the public key", "an algorithm that is not allowed"])
async def test_for_an_algorithm_that_is_not_allowed_no_key_is_looked_for(
    issuer: Issuer, authenticator: JwtAuthenticator, name: str
) -> None:
    """What could not count anyway asks nobody anything."""
    assert await authenticator.authenticate(_FORGED[name]) is None

    assert issuer.asked == 0


@pytest.mark.parametrize("header", ["jku", "x5u", "jwk", "x5c"])
async def test_a_token_does_not_say_where_its_key_is(authenticator: JwtAuthenticator, header: str) -> None:
    """Neither is another address asked, nor a key taken that comes with the token."""
    async with serve_issuer(_STRANGER) as attacker:
        value = {
            "jku": attacker.jwks_url,
            "x5u": f"{attacker.url}/certificate",
            "jwk": _STRANGER.public(),
            "x5c": [base64.b64encode(_pem(_STRANGER)).decode()],
        }[header]

        for kid in ("first", "unknown", None):
            headers = {header: value} | ({} if kid is None else {"kid": kid})
            forged = jwt.encode(claims(), _STRANGER.private, "ES256", headers=headers)
            assert await authenticator.authenticate(forged) is None

        assert (attacker.asked, attacker.others) == (0, [])
    assert await authenticator.authenticate(_KEY.sign(claims(), **{header: value})) is not None


async def test_keys_that_are_not_for_signatures_or_too_weak_count_for_nothing() -> None:
    """Symmetric, for encryption, of another curve, short, or not understood; a good one beside them does."""
    short = SigningKey("short", "RS256", rsa.generate_private_key(public_exponent=65_537, key_size=1024))  # noqa: S505 - what is refused
    with pytest.warns(InsecureKeyLengthWarning):
        with_short = short.sign(claims())
    good = signing_key("good", "RS256")
    secret = b"s" * 64
    async with serve_issuer() as issuer:
        issuer.keys = [
            {"kty": "oct", "kid": "secret", "alg": "HS256", "k": _segment(secret)},
            _KEY.public(kid="encrypts", use="enc"),
            _KEY.public(kid="derives", use=None, key_ops=["deriveKey"]),
            _KEY.public(kid="odd", use=None, key_ops=7),
            _KEY.public(kid="other curve", crv="P-384"),
            _KEY.public(kid="broken", x="!"),
            short.public(),
            {"kid": "nothing"},
            good.public(),
        ]
        authenticator = JwtAuthenticator(_config(issuer))
        with_secret = jwt.encode(claims(), secret, "HS256", headers={"kid": "secret"})

        assert await authenticator.authenticate(good.sign(claims())) is not None
        assert await authenticator.authenticate(with_secret) is None
        assert await authenticator.authenticate(with_short) is None
        for kid in ("encrypts", "derives", "odd", "other curve", "broken", "nothing"):
            assert await authenticator.authenticate(_KEY.sign(claims(), kid=kid)) is None


async def test_a_token_without_a_key_id_is_checked_if_only_one_key_can_be_meant(
    issuer: Issuer, authenticator: JwtAuthenticator, clock: _Clock
) -> None:
    """With two of them, it would have to be guessed."""
    anonymous = jwt.encode(claims(), _KEY.private, "ES256")
    assert await authenticator.authenticate(anonymous) is not None

    issuer.keys.append(signing_key("second").public())
    clock.now += FRESH_SECONDS + 1
    await authenticator.authenticate(signing_key("second").sign(claims()))

    assert await authenticator.authenticate(anonymous) is None


async def test_a_refusal_says_in_the_log_why_and_quotes_nothing(
    authenticator: JwtAuthenticator, caplog: pytest.LogCaptureFixture
) -> None:
    """The class of the error is enough to find the setting that does not fit."""
    caplog.set_level(logging.DEBUG, "agent_reminiscence.server")
    token = _KEY.sign(claims(aud="https://another.example"))

    assert await authenticator.authenticate(token) is None

    said = [record.getMessage() for record in caplog.records if record.name == "agent_reminiscence.server"]
    assert said == ["a token was refused: InvalidAudienceError"]


# --- Keys that change, and an issuer that is away --------------------------------------------------------------------


async def test_the_keys_are_fetched_once_for_all_who_ask(issuer: Issuer, authenticator: JwtAuthenticator) -> None:
    """Also for those who come while they are being fetched."""
    issuer.is_open.clear()
    tasks = [asyncio.create_task(authenticator.authenticate(_KEY.sign(claims()))) for _ in range(20)]
    async with asyncio.timeout(60):
        await issuer.was_asked.wait()
    tasks[0].cancel()
    issuer.is_open.set()

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(answers[0], asyncio.CancelledError)
    assert [getattr(answer, "external_id", None) for answer in answers[1:]] == ["ida"] * 19
    assert issuer.asked == 1


async def test_a_new_key_is_found_and_unknown_ones_do_not_flood_the_issuer(
    issuer: Issuer, authenticator: JwtAuthenticator, clock: _Clock
) -> None:
    """An unknown key has the keys fetched again, but only now and then, whoever sends such tokens."""
    second = signing_key("second")
    assert await authenticator.authenticate(_KEY.sign(claims())) is not None
    issuer.keys.append(second.public())

    for number in range(5):
        assert await authenticator.authenticate(_UNKNOWN.sign(claims(), kid=f"unknown-{number}")) is None
    assert issuer.asked == 1
    clock.now += PAUSE_SECONDS
    assert await authenticator.authenticate(second.sign(claims())) is not None
    assert issuer.asked == 2


async def test_a_withdrawn_key_ends_when_the_keys_are_fetched_again(
    issuer: Issuer, authenticator: JwtAuthenticator, clock: _Clock
) -> None:
    """That is after some minutes, with the next token."""
    second = signing_key("second")
    assert await authenticator.authenticate(_KEY.sign(claims())) is not None
    issuer.keys = [second.public()]
    clock.now += FRESH_SECONDS - 1
    assert await authenticator.authenticate(_KEY.sign(claims())) is not None

    clock.now += 2
    # It has them fetched, and does not wait for that.
    assert await authenticator.authenticate(_KEY.sign(claims())) is not None
    fetching = authenticator._keys._fetching
    assert fetching is not None
    await fetching

    assert issuer.asked == 2
    assert await authenticator.authenticate(_KEY.sign(claims())) is None
    assert await authenticator.authenticate(second.sign(claims())) is not None


_ODD_ANSWERS: dict[str, Callable[[], Response]] = {
    "an error": lambda: PlainTextResponse("no", 500),
    "no JSON": lambda: PlainTextResponse("keys"),
    "no keys": lambda: JSONResponse({"key": []}),
    "a list": lambda: JSONResponse([_KEY.public()]),
    "another address": lambda: RedirectResponse("/elsewhere"),
    "far too much": lambda: JSONResponse({"keys": [_KEY.public()], "more": "x" * 1_100_000}),
}


@pytest.mark.parametrize("odd", _ODD_ANSWERS.values(), ids=_ODD_ANSWERS.keys())
async def test_an_issuer_that_cannot_be_read_is_no_refusal(
    served: Served, issuer: Issuer, clock: _Clock, odd: Callable[[], Response]
) -> None:
    """503 says to try again; a 401 would have the client throw a good token away. Other credentials go on."""
    issuer.answer = odd()
    async with served.with_token(_GOOD) as client, served.with_token(_LOCAL, {"X-External-Id": "joe"}) as local:
        answer = await client.get("/v1/whoami")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert answer.headers["content-type"] == "application/problem+json"
        assert (await local.get("/v1/whoami")).json() == {"tenant": "joe"}

        issuer.answer = None
        assert (await client.get("/v1/whoami")).status_code == 503
        assert issuer.asked == 1
        clock.now += PAUSE_SECONDS
        assert (await client.get("/v1/whoami")).status_code == 200
    assert issuer.others == []


async def test_an_issuer_that_is_not_there_is_no_refusal(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody listens at its address any more."""
    async with serve_issuer(_KEY) as issuer:
        config = _config(issuer)
    authenticator = JwtAuthenticator(config)

    with pytest.raises(ProblemError, match="the issuer of tokens is unavailable") as refused:
        await authenticator.authenticate(_GOOD)

    assert refused.value.status == 503
    said = [record.getMessage() for record in caplog.records if record.name == "agent_reminiscence.server"]
    assert said == ["the keys of the issuer of tokens cannot be read: ConnectError"]


async def test_known_keys_still_count_while_the_issuer_is_away(
    issuer: Issuer, authenticator: JwtAuthenticator, clock: _Clock
) -> None:
    """For an hour; of an unknown key it cannot be told meanwhile whether the issuer has it."""
    assert await authenticator.authenticate(_GOOD) is not None
    issuer.answer = PlainTextResponse("no", 503)
    clock.now += FRESH_SECONDS + 1

    assert await authenticator.authenticate(_GOOD) is not None
    with pytest.raises(ProblemError, match="unavailable"):
        await authenticator.authenticate(_UNKNOWN.sign(claims()))
    clock.now += USABLE_SECONDS
    with pytest.raises(ProblemError, match="unavailable"):
        await authenticator.authenticate(_GOOD)


async def test_a_slow_issuer_keeps_nobody_else_waiting(served: Served, issuer: Issuer) -> None:
    """Its answer is awaited, and other requests are answered meanwhile."""
    issuer.is_open.clear()
    async with served.with_token(_GOOD) as client, served.with_token(_LOCAL, {"X-External-Id": "joe"}) as local:
        waiting = asyncio.create_task(client.get("/v1/whoami"))
        async with asyncio.timeout(60):
            await issuer.was_asked.wait()

        assert (await local.get("/v1/whoami")).json() == {"tenant": "joe"}
        assert not waiting.done()
        issuer.is_open.set()
        assert (await waiting).status_code == 200
