import itertools
import random

import pytest

from scale.engine import Model
from spec.parameters import ParameterError


def test_operations_on_one_resource_follow_each_other() -> None:
    model = Model()
    for name in "abc":
        model.add(name, ["array"], 2.0)
    timeline = model.run()
    assert list(timeline.starts) == [0.0, 2.0, 4.0]
    assert timeline.busy() == {"array": 6.0}


def test_operations_on_different_resources_overlap() -> None:
    model = Model()
    model.add("a", ["array"], 2.0)
    model.add("b", ["vector"], 3.0)
    assert model.run().seconds == 3.0


def test_lower_priority_number_is_served_first_but_nothing_is_interrupted() -> None:
    model = Model()
    first = model.add("first", ["link"], 1.0, priority=5)
    late = model.add("late", ["link"], 1.0, priority=5)
    urgent = model.add("urgent", ["link"], 1.0, [model.add("wait", [], 0.5)], priority=0)
    timeline = model.run()
    assert [timeline.starts[n] for n in (first, urgent, late)] == [0.0, 1.0, 2.0]


def test_a_stream_finishes_no_earlier_than_its_source() -> None:
    model = Model()
    load = model.add("load", ["hbm"], 5.0)
    work = model.add("work", ["array"], 2.0, meets=[load])
    timeline = model.run()
    assert (timeline.starts[work], timeline.finishes[work]) == (0.0, 5.0)


def test_a_stream_that_is_slower_than_its_source_takes_its_own_time() -> None:
    model = Model()
    load = model.add("load", ["hbm"], 1.0)
    model.add("work", ["array"], 3.0, meets=[load])
    assert model.run().seconds == 3.0


def test_an_operation_that_holds_two_resources_waits_for_both() -> None:
    model = Model()
    model.add("x", ["x"], 3.0)
    model.add("y", ["y"], 1.0)
    both = model.add("both", ["x", "y"], 1.0, [model.add("soon", [], 0.5)])
    assert model.run().starts[both] == 3.0


def test_crossed_wishes_do_not_block_each_other() -> None:
    model = Model()
    for names in itertools.permutations("abc", 2):
        model.add("".join(names), names, 1.0)
    assert model.run().seconds <= 6.0


def test_a_circle_is_refused_with_a_name() -> None:
    model = Model()
    first = model.add("first", ["hbm"], 1.0)
    model.add("second", ["hbm"], 1.0, meets=[first], priority=-1)
    with pytest.raises(ParameterError, match="never finishes"):
        model.run()


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_an_impossible_duration_is_refused(seconds: float) -> None:
    with pytest.raises(ParameterError, match="legal is at least 0"):
        Model().add("a", [], seconds)


def _random_model(seed: int) -> Model:
    draw, model = random.Random(seed), Model()
    for number in range(300):
        after = draw.sample(range(number), min(number, draw.randrange(4)))
        held = draw.sample(["a", "b", "c", "d"], draw.randrange(1, 3))
        model.add(str(number), held, draw.choice([0.0, 0.5, 1.0, 2.0]), after, priority=draw.randrange(3))
    return model


@pytest.mark.parametrize("seed", range(10))
def test_random_models_repeat_keep_order_and_never_share_a_resource(seed: int) -> None:
    timeline, again = _random_model(seed).run(), _random_model(seed).run()
    assert timeline == again
    spans: dict[int, list[tuple[float, float]]] = {}
    for held, start, finish in zip(timeline.held, timeline.starts, timeline.finishes, strict=True):
        for resource in held:
            spans.setdefault(resource, []).append((start, finish))
    for busy in spans.values():
        busy.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(busy))


@pytest.mark.parametrize("seed", range(5))
def test_no_resource_idles_while_its_only_user_waits(seed: int) -> None:
    """One resource, no dependencies between ready operations: the time is the sum."""
    draw, model = random.Random(seed), Model()
    durations = [draw.random() for _ in range(50)]
    for duration in durations:
        model.add("op", ["only"], duration)
    assert model.run().seconds == pytest.approx(sum(durations))
