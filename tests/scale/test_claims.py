import dataclasses

import pytest

from scale.claims import CLAIMS, TOLERANCE, Claim, records
from scale.serving import serving_gain, tokens_of_a_chip


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


def test_the_stated_serving_gain_lies_between_the_two_formats_as_the_explanation_says() -> None:
    assert serving_gain(trn2_bytes=1) < 3 < serving_gain(trn2_bytes=2)


def test_a_latency_nothing_meets_gives_no_tokens() -> None:
    assert tokens_of_a_chip("trn2-ultraserver", "gpt-oss-120b", "dp=64,ep=64", 2, 1e-3) == 0.0


def test_a_claim_on_an_assumption_says_so() -> None:
    for claim in CLAIMS:
        if "watt" in claim.what or "serving" in claim.what:
            assert "assumption:" in claim.inputs
