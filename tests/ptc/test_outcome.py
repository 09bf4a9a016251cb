"""Outcomes and errors as data."""

from dataclasses import FrozenInstanceError, asdict, replace
from typing import get_args

import pytest

from ptc.errors import CallError, ClosedError, LoadError, LocalProtocolError, PtcError, UsageError
from ptc.outcome import KINDS, UNSET, EngineInfo, Failure, Kind, Outcome, Position

ENGINE = EngineInfo("quickjs", "1")


def test_ok_says_whether_there_is_a_failure() -> None:
    """PTC-115 it cannot disagree with the failure, and it is a field like the others."""
    fine = Outcome(engine=ENGINE, value=None, has_value=True)
    failed = replace(fine, failure=Failure("timeout", "late"), has_value=False)
    assert (fine.ok, failed.ok) == (True, False)
    assert asdict(failed)["ok"] is False
    assert asdict(failed)["failure"] == {"kind": "timeout", "message": "late", "position": None, "stack": None}


def test_outcomes_are_frozen() -> None:
    """PTC-115 nobody changes one afterwards."""
    with pytest.raises(FrozenInstanceError):
        Outcome(engine=ENGINE).calls = 1  # type: ignore[misc]


def test_there_are_twelve_kinds() -> None:
    """PTC-115 no other kind exists."""
    assert len(KINDS) == len(set(KINDS)) == 12
    assert get_args(Kind) == KINDS


def test_a_load_error_reads_like_a_compiler_message() -> None:
    """PTC-051 host side: position, kind, message."""
    error = LoadError(Failure("exception", "unexpected token", Position(3, 7)))
    assert str(error) == "3:7: exception: unexpected token"
    assert error.failure.position == Position(3, 7)
    assert str(LoadError(Failure("timeout", "too slow"))) == "timeout: too slow"


def test_misuse_is_a_value_error_and_everything_has_one_root() -> None:
    """PTC-127 the tree of section 11."""
    assert issubclass(UsageError, ValueError)
    for kind in (UsageError, ClosedError, LoadError, LocalProtocolError, CallError):
        assert issubclass(kind, PtcError)


def test_unset_is_no_value_of_json() -> None:
    """PTC-108 it prints as itself."""
    assert repr(UNSET) == "UNSET"
    assert UNSET is not None
