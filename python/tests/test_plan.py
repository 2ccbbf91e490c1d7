"""Plans for pools that nobody has here."""

from __future__ import annotations

import pytest
from conftest import World

import nextpair

RATES = nextpair.Rates(rows=1000.0, thresholds=2.0, join=0.01, part=5000)


def test_the_formulas() -> None:
    plan = nextpair.plan(1_000_000, 256, 1000, nodes=4, cores=2, rates=RATES, read_rate=1e8)
    size, pairs = 1_000_000 * 1024, 2 * 1000 * 1024
    assert plan.parts == 8
    assert plan.phases == {
        "thresholds": 1.0,
        "reading": size / 4e8,
        "scoring": 1_000_000 / 8000,
        "joining": pytest.approx(0.08),
    }
    assert plan.seconds == pytest.approx(1.0 + 125.0 + 0.08)
    assert plan.transfer == {"read": size, "sent": 3 * (pairs + 20_000), "returned": 40_000}
    assert pairs + 2 * (128 << 20) < plan.memory < pairs + 2 * (256 << 20)
    assert plan.selections == 1
    assert "125.0 s" in str(plan)


def test_any_size_up_to_ten_thousand_million_rows() -> None:
    small, large = (nextpair.plan(10**power, 512, 10_000, nodes=100, cores=16, rates=RATES) for power in (6, 10))
    assert large.phases["scoring"] == pytest.approx(10_000 * small.phases["scoring"])
    assert large.memory == small.memory
    assert large.selections == 3
    assert "in 3 selections" in str(large)
    with pytest.raises(nextpair.SettingError, match="at least 1 of each"):
        nextpair.plan(0, 512, 10_000)


def test_rates_are_measured(world: World) -> None:
    rates = nextpair.measure(world.images, world.texts, world.pool, 20)
    assert rates.rows > 0 and rates.thresholds > 0 and rates.join > 0
    part = nextpair.score(world.images, world.texts, world.pool, 20, "hard-negative", of=400)
    assert abs(rates.part - len(part.data)) < 100
    assert nextpair.plan(1000, 8, 50).seconds > 0
