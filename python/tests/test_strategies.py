"""What every strategy must do."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from conftest import NEEDS, World, make
from sklearn.base import clone

import nextpair
from nextpair import _engine
from nextpair._strategies import Parameters, parameters_of

every = pytest.mark.parametrize("name", nextpair.STRATEGIES)


def test_the_engine_has_no_other_strategies() -> None:
    assert list(nextpair.STRATEGIES) == [name for name, *_ in _engine.strategies()]
    for name, kind in nextpair.STRATEGIES.items():
        assert kind.name == name
        assert getattr(nextpair, kind.__name__) is kind


@every
def test_parameters_are_those_that_the_engine_declares(name: str) -> None:
    # Vectors are given, so that there is nothing to make of them.
    declared = {own: default for own, _, _, default in parameters_of(name) if own != "features"}
    signature = inspect.signature(nextpair.STRATEGIES[name]).parameters
    usual = {own: "" if it.default is None else str(it.default) for own, it in signature.items()}
    beside = {"random_state"} | ({"scope", "anchors", "rivals"} if "sample" in declared else set())
    assert {own: default for own, default in usual.items() if own not in beside} == declared


def test_a_name_takes_the_parameters_of_all_strategies() -> None:
    kinds = nextpair.STRATEGIES.values()
    names = {name for kind in kinds for name in inspect.signature(kind).parameters}
    assert names - {"random_state"} == Parameters.__annotations__.keys()


@every
def test_answers_are_reproducible_and_whole(name: str, world: World) -> None:
    for budget in (1, 7, 200):
        picks = world.select(budget, name)
        assert len(picks) == len(set(picks.indices.tolist())) == budget
        assert picks == world.select(budget, nextpair.STRATEGIES[name]())
        assert picks == world.select(budget, name, threads=1)
        assert [pick.rank for pick in picks] == list(range(1, budget + 1))


@every
def test_seeds_are_random_states(name: str, world: World) -> None:
    strategy = nextpair.STRATEGIES[name](random_state=5)
    assert world.select(9, strategy) == world.select(9, name, seed=5)
    assert world.select(9, strategy) == strategy.query(*world, 9, guard="off")
    drawn = nextpair.STRATEGIES[name](random_state=np.random.default_rng(1))
    assert len(world.select(9, drawn)) == 9
    assert len(world.select(9, nextpair.STRATEGIES[name](random_state=None))) == 9


@every
def test_scikit_learn_can_copy_it(name: str) -> None:
    strategy = nextpair.STRATEGIES[name](random_state=3)
    copy = clone(strategy)
    assert copy is not strategy and copy.get_params() == strategy.get_params()
    assert repr(copy) == f"{type(strategy).__name__}(random_state=3)"
    assert copy.set_params(random_state=4).random_state == 4
    assert pickle.loads(pickle.dumps(copy)).get_params() == copy.get_params()
    with pytest.raises(nextpair.SettingError, match="^colour: .* has no such parameter"):
        copy.set_params(colour="red")


def strided(array: Any) -> Any:
    wide = np.zeros((len(array), 2 * array.shape[1]), array.dtype)
    wide[:, ::2] = array
    return wide[:, ::2]


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


@every
@pytest.mark.parametrize(
    "change",
    [strided, read_only, np.asfortranarray, lambda a: a.astype(">f4"), lambda a: a.astype(np.float64), np.ndarray.tolist],
    ids=["strided", "read-only", "fortran", "big-endian", "float64", "lists"],
)
def test_the_kind_of_array_changes_nothing(name: str, change: Any, world: World) -> None:
    found = world.each(change).select(6, name)
    assert found.indices.tolist() == world.select(6, name).indices.tolist()


@every
def test_half_precision_is_read(name: str) -> None:
    half = make(dtype=np.float16)
    assert half.select(6, name) == half.each(lambda array: array.astype(np.float64)).select(6, name)


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_number_is_refused_with_its_place(name: str, bad: float, world: World) -> None:
    world.pool[17, 3] = bad
    with pytest.raises(nextpair.InputError, match="^pool: .*row 17, dimension 3"):
        world.select(5, name)
    world.pool[17, 3] = 1
    world.texts[2, 1] = bad
    with pytest.raises(nextpair.InputError, match="^texts: .*row 2, dimension 1"):
        world.select(5, name)


@every
def test_bad_sizes_are_refused_by_name(name: str, world: World) -> None:
    for budget in (0, 201):
        with pytest.raises(nextpair.SettingError, match="^budget: "):
            world.select(budget, name)
    for budget in (-1, 1.5, "3", None, True):
        with pytest.raises(nextpair.SettingError, match="^budget: a whole number"):
            world.select(budget, name)  # type: ignore[arg-type]
    with pytest.raises(nextpair.InputError, match="^pool: .*empty"):
        world._replace(pool=world.pool[:0]).select(5, name)
    with pytest.raises(nextpair.InputError, match=r"^pool: one row per item is needed.*\(12,\)"):
        world._replace(pool=world.pool[0]).select(5, name)
    with pytest.raises(nextpair.InputError, match="^images: there are no numbers"):
        world._replace(images=world.images[:, :0]).select(5, name)
    with pytest.raises(nextpair.InputError, match="dimensions"):
        world._replace(pool=world.pool[:, :5]).select(5, name)
    with pytest.raises(nextpair.InputError, match="59 paired images but 60 paired texts"):
        world._replace(images=world.images[:59]).select(5, name)


@every
@pytest.mark.parametrize("kind", ["U3", "O", "complex64", "M8[s]", np.longdouble])
def test_other_types_are_refused_by_name(name: str, kind: Any, world: World) -> None:
    with pytest.raises(nextpair.ArrayTypeError, match="^texts: numbers of type"):
        world._replace(texts=np.zeros(world.texts.shape).astype(kind)).select(5, name)


@every
def test_pools_of_texts(name: str, world: World) -> None:
    found = nextpair.select(world.texts, world.images, world.pool, 6, name, pool_side="text", guard="off")
    assert found == world.select(6, name)


@every
def test_what_is_not_needed_may_be_missing(name: str, world: World) -> None:
    matching, features = NEEDS[name]
    if not matching:
        images = world.images if features else None
        assert nextpair.select(images, None, world.pool, 6, name, guard="off") == world.select(6, name)
    else:
        with pytest.raises(nextpair.SettingError, match="needs the similarities"):
            nextpair.select(world.images, None, world.pool, 6, name, guard="off")


@every
def test_shards_give_the_same_picks(name: str, world: World) -> None:
    whole = world.select(20, name)
    cuts = [0, 50, 51, 200]
    parts = []
    try:
        for a, b in zip(cuts, cuts[1:], strict=False):
            part = nextpair.score(world.images, world.texts, world.pool[a:b], 20, name, first=a, of=200)
            parts.append(pickle.loads(pickle.dumps(part)))
            assert parts[-1].items == [(a, b)]
    except nextpair.SettingError as error:
        assert "cannot be split into shards" in str(error)
        return
    nothing = nextpair.score(world.images, world.texts, world.pool[:0], 20, name, of=200)
    told = [
        nextpair.score(world.images, world.texts, world.pool[a:b], 20, name, first=a, of=200, thresholds=nothing)
        for a, b in zip(cuts, cuts[1:], strict=False)
    ]
    features = (world.pool, world.images)
    assert nextpair.merge(reversed(parts), features=features, guard="off") == whole
    assert nextpair.merge([*told, nothing], features=features, guard="off") == whole
    with pytest.raises(nextpair.PartsError, match="items 50 to 50 of 200 are in none"):
        nextpair.merge([parts[0], parts[2]], features=features)
    with pytest.raises(nextpair.PartsError, match="part 1 is of another selection"):
        other = nextpair.score(world.images, world.texts, world.pool[50:], 21, name, first=50, of=200)
        nextpair.merge([parts[0], other], features=features)


def test_thresholds_of_other_pairs_are_refused(world: World) -> None:
    def score(texts: Any = world.texts, **options: Any) -> nextpair.Partial:
        return nextpair.score(world.images, texts, world.pool, 5, "hard-negative", **options)

    part = score()
    assert nextpair.merge([score(thresholds=part)], guard="off") == world.select(5)
    with pytest.raises(nextpair.PartsError, match="^thresholds: they are of another selection"):
        score(thresholds=part, top_k=2)
    for other in ({"texts": world.texts[::-1]}, {"groups": [0] * 30 + list(range(1, 31))}):
        with pytest.raises(nextpair.PartsError, match="of other pairs or settings: pair "):
            score(thresholds=part, **other)


def test_the_default_is_that_of_the_engine(world: World) -> None:
    assert nextpair.select(*world, 5, guard="off") == world.select(5, _engine.default_strategy())
    assert _engine.default_strategy() == "v-optimal"
    # It has one parameter, and not those of others.
    assert nextpair.select(*world, 5, prior=2.0, guard="off") == world.select(5, nextpair.VOptimal(prior=2.0))
    with pytest.raises(nextpair.SettingError, match="^top_k: v-optimal has no such parameter"):
        nextpair.select(*world, 5, top_k=2)


def test_parts_are_of_a_named_strategy(world: World) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'strategy'"):
        nextpair.score(*world, 5)  # type: ignore[call-arg]
    with pytest.raises(nextpair.SettingError, match="v-optimal cannot be split into shards"):
        nextpair.score(*world, 5, _engine.default_strategy())


def test_devices(world: World) -> None:
    assert world.select(5, device="cpu") == world.select(5)
    with pytest.raises(nextpair.SettingError, match="^device: 'tpu' is none of auto"):
        world.select(5, device="tpu")
    with pytest.raises(nextpair.SettingError, match="^device: "):
        world.select(5, device="cuda:999")


def test_parameters_reach_the_engine(world: World) -> None:
    usual = world.select(30)
    for strategy in (
        nextpair.HardNegative(top_k=3),
        nextpair.HardNegative(weight="count"),
        nextpair.HardNegative(scope="mini", sample=20),
        nextpair.HardNegative(anchors=range(10)),
        nextpair.HardNegative(rivals=range(10)),
        nextpair.HardNegative(max_score=0.5),
        nextpair.HardNegative(absolute_margin=0.3),
        nextpair.HardNegative(relative_margin=0.3),
    ):
        assert world.select(30, strategy) != usual, strategy
    share = nextpair.HardNegative(scope="mini", sample=0.5)
    assert world.select(30, share) == world.select(30, nextpair.HardNegative(scope="mini", sample=30))
    assert world.select(30, nextpair.Herding(points=50)) != world.select(30, nextpair.Herding())
    assert world.select(30, nextpair.Herding(bandwidth=5.0)) != world.select(30, nextpair.Herding())
    assert world.select(30, nextpair.Entropy(temperature=1.0)) != world.select(30, nextpair.Entropy())
    assert world.select(30, "hard-negative", top_k=3) == world.select(30, nextpair.HardNegative(top_k=3))


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (nextpair.HardNegative(top_k=0), "top-k is 0"),
        (nextpair.HardNegative(top_k=2.5), "^top_k: a whole number"),  # type: ignore[arg-type]
        (nextpair.HardNegative(weight="heavy"), "^weight: 'heavy' is none of surplus, count"),  # type: ignore[arg-type]
        (nextpair.HardNegative(scope="mini"), "^sample: "),
        (nextpair.HardNegative(sample=5), "^sample: "),
        (nextpair.HardNegative(scope="mini", sample=1.5), "^sample: .*not a share"),
        (nextpair.HardNegative(scope="mini", sample=0), "^sample: .*at least 1"),
        (nextpair.HardNegative(scope="mini", sample=61), "larger than the paired set"),
        (nextpair.HardNegative(max_score=float("nan")), "max-score is NaN"),
        (nextpair.HardNegative(anchors=[60]), "index 60 .* out of range"),
        (nextpair.Herding(points=0), "points is 0"),
        (nextpair.Entropy(temperature=-1), "temperature is -1"),
        ("hardest", "^strategy: no strategy 'hardest'; there are hard-negative"),
        (nextpair.HardNegative, "^strategy: HardNegative is a class"),
        (17, "^strategy: 17 is no name"),
    ],
)
def test_bad_parameters_are_refused(strategy: Any, said: str, world: World) -> None:
    with pytest.raises(nextpair.SettingError, match=said) as caught:
        world.select(5, strategy)
    assert isinstance(caught.value, (nextpair.NextpairError, ValueError))
