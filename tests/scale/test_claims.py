import dataclasses

import pytest

from scale.claims import CLAIMS, TOLERANCE, Claim, records


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.machine}: {claim.what}")
def test_a_claim_is_reproduced_or_explained(claim: Claim) -> None:
    assert claim.holds, f"{claim.what}: computed {claim.computed:g}, stated {claim.stated:g} {claim.unit}"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.machine}: {claim.what}")
def test_only_a_deviation_is_explained(claim: Claim) -> None:
    """An explanation that is no longer needed must go."""
    assert abs(claim.deviation) > TOLERANCE or not claim.explanation


def test_a_planted_wrong_figure_fails() -> None:
    wrong = dataclasses.replace(CLAIMS[0], stated=CLAIMS[0].stated * 1.03)
    assert not wrong.holds


def test_records_carry_every_claim() -> None:
    assert [record.figure for record in records()] == [claim.what for claim in CLAIMS]
