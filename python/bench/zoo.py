"""Networks as people train them, from torchvision, transformers and diffusers, small enough for a CPU: random weights, the
loss inside, model(*inputs) is a number."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import networks
import torch
import torch.nn.functional as F
from torch import nn

Made = tuple[nn.Module, tuple[Any, ...]]


class Classifier(nn.Module):
    """A network that makes scores, with cross entropy; of several outputs the first, or the one called `out`."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = self.inner(x)
        if not isinstance(scores, torch.Tensor):
            scores = scores["out"] if isinstance(scores, dict) else scores[0]
        return F.cross_entropy(scores, y)


class Labelled(nn.Module):
    """A network of transformers: it has its loss where it is given labels."""

    def __init__(self, inner: nn.Module, *names: str, **fixed: Any) -> None:
        super().__init__()
        self.inner, self.names, self.fixed = inner, names, fixed

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.inner(**dict(zip(self.names, inputs)), **self.fixed).loss
        return loss


class Denoiser(nn.Module):
    """A U-Net that says what noise was added."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor, t: torch.Tensor, noise: torch.Tensor, *text: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.inner(x, t, *text).sample, noise)


class Sequence(nn.Module):
    """PyTorch's own LSTM, two layers with dropout between them."""

    def __init__(self, words: int = 100, width: int = 64) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.lstm(self.words(x))[0]).flatten(0, 1), y.flatten())


class Graph(nn.Module):
    """Message passing over edges: gather, scatter by index_add and by scatter_reduce."""

    def __init__(self, width: int = 64, layers: int = 4) -> None:
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.updates = nn.ModuleList(nn.Linear(3 * width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.head = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        source, target = edges[0], edges[1]
        for message, update, norm in zip(self.messages, self.updates, self.norms):
            m = F.relu(message(torch.cat([x[source], x[target]], 1)))
            total = torch.zeros_like(x).index_add(0, target, m)
            largest = torch.zeros_like(x).scatter_reduce(0, target[:, None].expand_as(m), m, "amax")
            x = x + norm(F.relu(update(torch.cat([x, total, largest], 1))))
        return F.cross_entropy(self.head(x), y)


def vision(name: str, batch: int = 8, size: int = 96, **options: Any) -> Made:
    models = importlib.import_module("torchvision.models")
    model = getattr(models, name)(weights=None, num_classes=10, **options)
    return Classifier(model), (torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,)))


def vision_transformer() -> Made:
    models = importlib.import_module("torchvision.models")
    model = models.VisionTransformer(64, 8, 4, 4, 128, 512, dropout=0.1, num_classes=10)
    return Classifier(model), networks.images(8, 64)


def segmentation(name: str) -> Made:
    models = importlib.import_module("torchvision.models.segmentation")
    model = getattr(models, name)(weights=None, weights_backbone=None, num_classes=4)
    return Classifier(model), (torch.randn(2, 3, 96, 96), torch.randint(0, 4, (2, 96, 96)))


def video() -> Made:
    models = importlib.import_module("torchvision.models.video")
    model = models.r3d_18(weights=None, num_classes=10)
    return Classifier(model), (torch.randn(1, 3, 8, 48, 48), torch.randint(0, 10, (1,)))


def text(kind: str, model: str, config: dict[str, Any], length: int = 64, words: int = 512) -> Made:
    library = importlib.import_module("transformers")
    made = getattr(library, model)(getattr(library, kind + "Config")(vocab_size=words, **config))
    tokens = torch.randint(4, words, (4, length))
    return Labelled(made, "input_ids", "labels"), (tokens, tokens.clone())


def heard() -> Made:
    library = importlib.import_module("transformers")
    config = library.WhisperConfig(
        vocab_size=256, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=256, decoder_ffn_dim=256, max_source_positions=100, max_target_positions=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = library.WhisperForConditionalGeneration(config)
    return Labelled(model, "input_features", "labels"), (torch.randn(2, 80, 200), torch.randint(4, 256, (2, 32)))


def diffusion() -> Made:
    library = importlib.import_module("diffusers")
    model = library.UNet2DModel(
        sample_size=32, block_out_channels=(32, 64, 64), norm_num_groups=8, layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return Denoiser(model), (torch.randn(2, 3, 32, 32), torch.tensor([3, 40]), torch.randn(2, 3, 32, 32))


def diffusion_with_text() -> Made:
    library = importlib.import_module("diffusers")
    model = library.UNet2DConditionModel(
        sample_size=32, block_out_channels=(32, 64), norm_num_groups=8, layers_per_block=1, cross_attention_dim=48,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=8,
    )  # fmt: skip
    inputs = (torch.randn(2, 4, 32, 32), torch.tensor([3, 40]), torch.randn(2, 4, 32, 32), torch.randn(2, 12, 48))
    return Denoiser(model), inputs


def graph() -> Made:
    return Graph(), (torch.randn(600, 64), torch.randint(0, 600, (2, 3000)), torch.randint(0, 5, (600,)))


BERT = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
LLAMA = {**BERT, "num_key_value_heads": 2}
DISTILBERT = {"dim": 128, "n_layers": 3, "n_heads": 4, "hidden_dim": 512}
GPT2 = {"n_embd": 128, "n_layer": 4, "n_head": 4}
T5 = {"pad_token_id": 0, "decoder_start_token_id": 0, "d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 3, "num_heads": 4}

ZOO: dict[str, Callable[[], Made]] = {
    "resnet18": lambda: vision("resnet18"),
    "resnet50": lambda: vision("resnet50"),
    "resnext50_32x4d": lambda: vision("resnext50_32x4d", 4),
    "vgg11_bn": lambda: (Classifier(vgg()), networks.images(16, 96)),
    "densenet121": lambda: vision("densenet121"),
    "googlenet": lambda: vision("googlenet", aux_logits=False, init_weights=False),
    "inception_v3": lambda: vision("inception_v3", 4, 128, aux_logits=False, init_weights=False),
    "mobilenet_v2": lambda: vision("mobilenet_v2"),
    "mobilenet_v3_small": lambda: vision("mobilenet_v3_small", 16),
    "mnasnet0_5": lambda: vision("mnasnet0_5", 16),
    "shufflenet_v2_x1_0": lambda: vision("shufflenet_v2_x1_0", 16),
    "squeezenet1_1": lambda: vision("squeezenet1_1", 16),
    "efficientnet_b0": lambda: vision("efficientnet_b0"),
    "regnet_y_400mf": lambda: vision("regnet_y_400mf"),
    "convnext_tiny": lambda: vision("convnext_tiny", 4),
    "swin_t": lambda: vision("swin_t", 4),
    "vision_transformer": vision_transformer,
    "fcn_resnet50": lambda: segmentation("fcn_resnet50"),
    "lraspp_mobilenet_v3": lambda: segmentation("lraspp_mobilenet_v3_large"),
    "r3d_18": video,
    "unet": lambda: (networks.UNet(16), networks.pictures(4, 96)),
    "bert": lambda: text("Bert", "BertForMaskedLM", BERT),
    "distilbert": lambda: text("DistilBert", "DistilBertForMaskedLM", DISTILBERT),
    "gpt2": lambda: text("GPT2", "GPT2LMHeadModel", GPT2),
    "llama": lambda: text("Llama", "LlamaForCausalLM", LLAMA),
    "qwen2": lambda: text("Qwen2", "Qwen2ForCausalLM", LLAMA),
    "t5": lambda: text("T5", "T5ForConditionalGeneration", T5),
    "whisper": heard,
    "diffusion": diffusion,
    "diffusion_with_text": diffusion_with_text,
    "lstm": lambda: (Sequence(), networks.sequences(8, 32, 100)),
    "graph": graph,
}


def vgg() -> nn.Module:
    """VGG-11 without its three wide layers, which are all parameters."""
    models = importlib.import_module("torchvision.models")
    features = models.vgg11_bn(weights=None).features
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(512, 10))


def make(name: str) -> Made:
    """A network with its inputs, always the same."""
    torch.manual_seed(0)
    return ZOO[name]()
