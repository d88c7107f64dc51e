import pytest

from spec.models import MODELS, ModelConfig, model_named
from spec.parameters import ParameterError

# As published: the exact counts of the checkpoints (Llama) and table 1 of the model card (gpt-oss).
PUBLISHED = {
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "gpt-oss-20b": 20.91e9,
    "gpt-oss-120b": 116.83e9,
}
PUBLISHED_ACTIVE = {"gpt-oss-20b": 3.61e9, "gpt-oss-120b": 5.13e9}


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameters_are_the_published_count(name: str, count: float) -> None:
    assert MODELS[name].parameters == pytest.approx(count, rel=0 if isinstance(count, int) else 5e-4)


@pytest.mark.parametrize(("name", "count"), PUBLISHED_ACTIVE.items())
def test_active_parameters_are_the_published_count(name: str, count: float) -> None:
    assert MODELS[name].active_parameters == pytest.approx(count, rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_names_its_source(name: str) -> None:
    assert MODELS[name].source


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"model 'llama9': legal is one of .*llama3\.1-405b"):
        model_named("llama9")


@pytest.mark.parametrize("change", [{"kv_heads": 3}, {"active_experts": 2}, {"layers": 0}])
def test_an_impossible_shape_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match="legal is"):
        MODELS["tiny-dense"].replace(**change)


def test_only_windowed_layers_are_windowed() -> None:
    model = MODELS["gpt-oss-20b"]
    assert [model.windowed(layer) for layer in range(4)] == [True, False, True, False]
    assert not any(MODELS["llama3.1-8b"].windowed(layer) for layer in range(4))


def test_layer_parameters_are_the_sum_of_their_tensors() -> None:
    m = ModelConfig(layers=1, hidden=6, heads=4, kv_heads=2, head_size=3, ffn=10, vocabulary=7)
    tensors = [(6, 12), (6, 6), (6, 6), (12, 6), (6, 10), (6, 10), (10, 6), (6, 1), (6, 1)]
    assert m.layer_parameters == sum(rows * columns for rows, columns in tensors)
    assert m.parameters == m.layer_parameters + 2 * 7 * 6 + 6
