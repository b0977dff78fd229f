"""Audits cost at most a share of the training, and the rows left out are printed."""

import pytest

from pipelines.evaluation.budget import LEAST, PASSES_OF_TRAINING, Audit, Budget

AUDITS = (
    Audit("importance", 20_000, 11, 200),
    Audit("attention", 5_000, 61, 200),
    Audit("relevance", 400, 701, 40),
)
WHOLE = sum(audit.work for audit in AUDITS)


def of_passes(passes: int) -> Budget:
    return Budget(0.2, passes // PASSES_OF_TRAINING * 5)


@pytest.mark.parametrize("passes", [0, 150_000, 311_000, 700_000, WHOLE - 1, WHOLE, 10**9])
def test_audits_stay_within_the_budget_and_use_most_of_it(passes: int) -> None:
    budget = of_passes(passes)
    rows = budget.rows(AUDITS)
    work = sum(n * audit.passes for n, audit in zip(rows, AUDITS, strict=True))
    assert work <= max(passes, LEAST)
    assert work >= 0.99 * min(budget.passes, WHOLE)
    assert all(n <= audit.rows for n, audit in zip(rows, AUDITS, strict=True))


def test_small_audit_leaves_work_to_the_others() -> None:
    small = Audit("small", 10, 3, 1)
    (few, *others), alone = of_passes(300_000).rows([small, *AUDITS]), of_passes(300_000)
    assert few == 10
    assert others[1] == pytest.approx(alone.rows(AUDITS)[1], rel=0.001)


def test_audit_of_too_few_rows_is_left_out() -> None:
    heavy = Audit("relevance", 400, LEAST // 39, 40)
    assert of_passes(0).rows([heavy]) == [0]
    assert of_passes(0).rows([heavy._replace(passes=LEAST // 40)]) == [40]
    assert of_passes(0).rows([heavy._replace(rows=11, fewest=40)]) == [11]


def test_words_name_what_is_left_out_and_a_share_that_shows_all() -> None:
    budget = Budget(0.2, 100_000)
    rows = budget.rows(AUDITS)
    words = budget.words(AUDITS, [20_000, rows[1], 0])
    assert words == (
        f"`evaluation.budget` = 0.2 leaves attention {rows[1]:,} of 5,000 rows, "
        "relevance no rows; all rows: --set evaluation.budget=2.7"
    )
    assert Budget(2.7, 100_000).rows(AUDITS) == [audit.rows for audit in AUDITS]
    assert not Budget(2.7, 100_000).words(AUDITS, [20_000, 5_000, 400])
