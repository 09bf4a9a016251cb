"""Where times and ids come from, unless a test or a host puts its own in their place."""

import secrets
from datetime import UTC, datetime


def utc_now() -> datetime:
    """This moment, for the times in event records and session lists."""
    return datetime.now(UTC)


def random_id() -> str:
    """32 hex digits of strong randomness."""
    return secrets.token_hex(16)
