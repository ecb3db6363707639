"""What doctor advises: only what can be done."""

from __future__ import annotations

from agent_reminiscence.config.constants import APP_ROLE, OWNER_ROLE
from agent_reminiscence.database.inspection import MembershipFacts
from agent_reminiscence.services.upkeep.doctor_checks import memberships_remedy


def _absent(role: str) -> MembershipFacts:
    return MembershipFacts(role=role, exists=False, inherits=None, may_set=None, has_usage=False)


def test_a_role_that_does_not_exist_is_not_to_be_revoked() -> None:
    """On a new server none of the roles exist; migrate makes them."""
    remedy = memberships_remedy([_absent(APP_ROLE), _absent(OWNER_ROLE)], "app")

    assert "migrate" in remedy
    assert "REVOKE" not in remedy


def test_the_owner_role_of_a_login_is_to_be_revoked() -> None:
    """It exists, and the login may take it."""
    owned = MembershipFacts(role=OWNER_ROLE, exists=True, inherits=False, may_set=True, has_usage=False)

    assert f'REVOKE {OWNER_ROLE} FROM "app"' in memberships_remedy([_absent(APP_ROLE), owned], "app")
