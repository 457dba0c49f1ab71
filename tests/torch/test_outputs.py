"""Outputs that are dataclasses, dictionaries with fields, and classes whose parts depend on what they hold."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import check, fed  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import export  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import mlc  # noqa: E402


class Mapped(OrderedDict):
    """A dictionary of the fields that are not None, as the outputs of transformers and diffusers are."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Registered(Mapped):
    """Each class below it is known to torch, by a flatten without keys."""

    def __init_subclass__(cls):
        pytree.register_pytree_node(
            cls,
            lambda output: (list(output.values()), list(output.keys())),
            lambda values, names: cls(**dict(zip(names, values, strict=True))),
            serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        )


@dataclass
class Encoded(Registered):
    last_hidden_state: torch.Tensor | None = None
    pooler_output: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


@dataclass
class Translated(Registered):
    logits: torch.Tensor | None = None
    encoder: Encoded | None = None


@dataclass
class Sampled(Mapped):
    """Not registered."""

    sample: torch.Tensor
    residuals: tuple[torch.Tensor, ...] | None = None


@dataclass
class Plain:
    """Not registered."""

    mean: torch.Tensor
    variance: torch.Tensor | None = None
    parts: object = None


class Cache:
    """Lists of tensors, some of which may be None."""

    def __init__(self, keys, values):
        self.keys, self.values = keys, values


pytree.register_pytree_node(
    Cache,
    lambda cache: pytree._dict_flatten({"keys": cache.keys, "values": cache.values}),
    lambda parts, names: Cache(**dict(zip(names, parts, strict=True))),
    serialized_type_name="test_outputs.Cache",
)


class Tensors:
    """Its parts are those of its values that are tensors."""

    def __init__(self, *values):
        self.values = values

    def flat(self):
        chosen = tuple(isinstance(value, torch.Tensor) for value in self.values)
        return [value for value in self.values if isinstance(value, torch.Tensor)], chosen

    @staticmethod
    def made(parts, chosen):
        parts = iter(parts)
        return Tensors(*(next(parts) if one else 0 for one in chosen))

    def keyed(self):
        parts, chosen = self.flat()
        places = [pytree.GetAttrKey(f"part{index}") for index, one in enumerate(chosen) if one]
        return list(zip(places, parts, strict=True)), chosen


class Keyed(Tensors):
    """The same with names of its parts."""

    @staticmethod
    def made(parts, chosen):
        return Keyed(*Tensors.made(parts, chosen).values)


class Nameless(Tensors):
    """The same with names of none of its parts."""

    @staticmethod
    def made(parts, chosen):
        return Nameless(*Tensors.made(parts, chosen).values)

    def keyed(self):
        return [], self.flat()[1]


pytree.register_pytree_node(Tensors, Tensors.flat, Tensors.made, serialized_type_name="test_outputs.Tensors")
for one in (Keyed, Nameless):
    pytree.register_pytree_node(
        one, one.flat, one.made, flatten_with_keys_fn=one.keyed, serialized_type_name=f"test_outputs.{one.__name__}"
    )

Pair = namedtuple("Pair", "left right")
CASES = {
    "registered": (
        lambda y: Encoded(last_hidden_state=y, hidden_states=(y + 1, y * 2)),
        lambda o: {
            "last_hidden_state": o.last_hidden_state,
            "hidden_states_0": o.hidden_states[0],
            "hidden_states_1": o.hidden_states[1],
        },
    ),
    "nested": (
        lambda y: Translated(y, Encoded(y + 1, None, (y * 2,))),
        lambda o: {
            "logits": o.logits,
            "encoder.last_hidden_state": o.encoder.last_hidden_state,
            "encoder.hidden_states_0": o.encoder.hidden_states[0],
        },
    ),
    "mapped": (lambda y: Sampled(y), lambda o: {"sample": o.sample}),
    "mapped in a tuple": (
        lambda y: (y, Sampled(y + 1, (y, y * 3))),
        lambda o: {
            "output_0": o[0],
            "output_1.sample": o[1].sample,
            "output_1.residuals_0": o[1].residuals[0],
            "output_1.residuals_1": o[1].residuals[1],
        },
    ),
    "plain": (
        lambda y: Plain(y, parts={"more": Plain(y + 1, y * y), "list": [y * 2, None]}),
        lambda o: {
            "mean": o.mean,
            "parts_more.mean": o.parts["more"].mean,
            "parts_more.variance": o.parts["more"].variance,
            "parts_list_0": o.parts["list"][0],
        },
    ),
    "cache": (
        lambda y: (y, Cache([y, y + 1], [None, y * 2])),
        lambda o: {
            "output_0": o[0],
            "output_1.keys_0": o[1].keys[0],
            "output_1.keys_1": o[1].keys[1],
            "output_1.values_1": o[1].values[1],
        },
    ),
    "tensors": (
        lambda y: {"a": Tensors(None, y, 3, y + 1), "b": y * 2},
        lambda o: {"a_0": o["a"].values[1], "a_1": o["a"].values[3], "b": o["b"]},
    ),
    "keyed": (
        lambda y: Keyed(None, y, 3, y + 1),
        lambda o: {"part1": o.values[1], "part3": o.values[3]},
    ),
    "nameless": (lambda y: (y, Nameless(y + 1)), lambda o: {"output_0": o[0], "output_1_0": o[1].values[0]}),
    "pair": (
        lambda y: defaultdict(int, both=Pair(y, (y + 1,))),
        lambda o: {"both.left": o["both"].left, "both.right_0": o["both"].right[0]},
    ),
    "same names": (
        lambda y: {"a_0": y, "a": (y + 1, y * 2)},
        lambda o: {"a_0": o["a_0"], "a_0.2": o["a"][0], "a_1": o["a"][1]},
    ),
}


class Returns(nn.Module):
    """A layer, and a function of its result."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function

    def forward(self, x):
        return self.function(self.linear(x))


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_structures(name):
    function, named = CASES[name]
    module, x = Returns(function).eval(), torch.randn(2, 4)
    wanted = named(module(x))
    check(fed(mlc.compile(mlc.from_torch(module, (x,)), threads=1), (x,)), wanted)
    check(fed(mlc.compile(export(module, (x,)), threads=1), (x,)), wanted)


@torch.no_grad()
@pytest.mark.parametrize("name", ["registered", "nested", "mapped", "mapped in a tuple", "plain", "cache", "tensors"])
@pytest.mark.filterwarnings("error:mlc leaves")
def test_structures_of_torch_compile(name):
    function, named = CASES[name]
    torch._dynamo.reset()
    module, x = Returns(function).eval(), torch.randn(2, 4)
    wanted, got = module(x), torch.compile(module, backend="mlc", options={"threads": 1})(x)
    assert type(got) is type(wanted)
    for key, tensor in named(wanted).items():
        torch.testing.assert_close(named(got)[key], tensor, rtol=1e-4, atol=1e-4)


@dataclass
class Given:
    """Not registered; an argument."""

    x: torch.Tensor
    scale: torch.Tensor | None = None


class Takes(nn.Module):
    def forward(self, given, factor):
        x = given.x * factor
        given.x.add_(1)
        return {"given_x": x, "scaled": x if given.scale is None else x * given.scale}


def test_a_dataclass_as_an_argument_and_an_output_named_like_an_input_that_is_written():
    x = torch.randn(3)
    model = mlc.from_torch(Takes(), (Given(x), torch.tensor(2.0)))
    assert model.inputs == ("given_x", "factor")
    assert model.outputs == ("given_x", "given_x.2", "scaled")
    got = fed(mlc.compile(model, threads=1), (x, torch.tensor(2.0)))
    check(got, {"given_x": x + 1, "given_x.2": x * 2, "scaled": x * 2})


def test_hooks_of_the_module_stay_as_they_were():
    module = Returns(lambda y: Plain(y))
    mlc.from_torch(module, (torch.randn(2, 4),))
    assert not module._forward_hooks
