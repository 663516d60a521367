"""Situations that people describe in public threads about training memory, as small models that train on a CPU.

Each situation names its thread. `build` makes the model; `step` runs one training step and returns the tensors to compare
with eager PyTorch. `data` makes the inputs of a step that calls the model once; its peak is compared with the budget.
Other steps make their own inputs: a plan covers each of their calls, not the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

Step = Callable[..., list[torch.Tensor]]


@dataclass(frozen=True)
class Situation:
    """One thread: a name, the address, and how to reproduce it."""

    name: str
    thread: str
    build: Callable[[], nn.Module]
    step: Step
    data: Callable[[], tuple[Any, ...]] | None = None
    needs: tuple[str, ...] = ()


SITUATIONS: list[Situation] = []


def situation(
    thread: str, build: Callable[[], nn.Module], data: Callable[[], tuple[Any, ...]] | None = None, needs: tuple[str, ...] = ()
) -> Callable[[Step], Step]:
    """Add the decorated step to SITUATIONS."""

    def add(step: Step) -> Step:
        SITUATIONS.append(Situation(step.__name__, f"https://github.com/{thread}", build, step, data, needs))
        return step

    return add


def blocks(n: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(n))
    )


def trained(model: Any, *inputs: Any) -> list[torch.Tensor]:
    """Backward of the model's result, which is a loss."""
    loss = model(*inputs)
    loss.backward()
    return [loss]


class Checkpointed(nn.Module):
    """Every block but the first runs under torch.utils.checkpoint."""

    def __init__(self, reentrant: bool, width: int = 64) -> None:
        super().__init__()
        self.layers, self.reentrant = blocks(8, width), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, layer in enumerate(self.layers):
            x = layer(x) if k == 0 else checkpoint(layer, x, use_reentrant=self.reentrant)
        return x.square().mean()


@situation("pytorch/pytorch/issues/6750", lambda: Checkpointed(True), data=lambda: (torch.randn(512, 64),))
def checkpointed_needs_more_than_without(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


@situation("pytorch/pytorch/issues/78731", lambda: Checkpointed(True, 32), data=lambda: (torch.randn(137, 32),))
def checkpointed_first_and_last_layers(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class WholeCheckpointed(nn.Module):
    """One checkpoint around the whole network: its recomputation needs all activations at once."""

    def __init__(self) -> None:
        super().__init__()
        self.body = blocks(6, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.body, x, use_reentrant=False).square().mean()


@situation("pytorch/pytorch/issues/147449", WholeCheckpointed, data=lambda: (torch.randn(512, 64),))
def one_checkpoint_around_all(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class PowerIteration(nn.Module):
    """A product in a loop, normalised each time."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.register_buffer("a", torch.randn(40, 40, dtype=torch.float64))
        self.register_buffer("b", torch.randn(40, 40, dtype=torch.float64))

    def forward(self, d: torch.Tensor) -> torch.Tensor:
        c = self.a + self.scale * self.b
        for _ in range(120):
            d = c @ d
            d = d / torch.norm(d)
        return torch.norm(self.b.t() @ d)


@situation("pytorch/pytorch/issues/125591", PowerIteration, data=lambda: (torch.randn(40, 40, dtype=torch.float64),))
def normalised_products_in_a_loop(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class AutocastCheckpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.body, self.last = nn.Linear(64, 64), blocks(4, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = self.first(x)
            x = checkpoint_sequential(self.body, 2, x, use_reentrant=False)
            return self.last(x).float().square().mean()


@situation("pytorch/pytorch/issues/141896", AutocastCheckpointed, data=lambda: (torch.randn(256, 64),))
def checkpoint_inside_autocast(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class Energy(nn.Module):
    """Forces are the gradient of an energy, computed inside of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        energy = self.net(x).sum()
        (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return force.square().mean() + energy.square()


@situation("pytorch/pytorch/issues/102223", Energy, data=lambda: (torch.randn(64, 3),))
def gradient_inside_of_forward(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


@situation("huggingface/transformers/issues/6354", lambda: blocks(4, 32))
def forwards_without_backward(model: Any) -> list[torch.Tensor]:
    x = torch.randn(64, 32)
    kept = [model(x) for _ in range(3)]
    loss = kept[-1].square().mean()
    loss.backward()
    return [loss, *kept]


class UNet(nn.Module):
    """Two levels with skip connections and batch normalisation."""

    def __init__(self) -> None:
        super().__init__()

        def twice(i: int, o: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True), nn.Conv2d(o, o, 3, padding=1), nn.ReLU(True)
            )

        self.a, self.b, self.c = twice(3, 8), twice(8, 16), twice(24, 8)
        self.up, self.head = nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.up(self.b(F.max_pool2d(a, 2)))
        return F.cross_entropy(self.head(self.c(torch.cat([a, b], 1))), y)


@situation(
    "NRCan/geo-deep-learning/issues/9",
    UNet,
    data=lambda: (
        torch.randn(4, 3, 32, 32),
        torch.randint(0, 4, (4, 32, 32)),
    ),
)
def segmentation_with_skips(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class MaskNet(nn.Module):
    """Speech separation: dilated convolutions over a long signal, masks, and the decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, 16, 16, stride=8), nn.ConvTranspose1d(16, 1, 16, stride=8)
        self.net = nn.ModuleList(
            nn.Sequential(
                nn.GroupNorm(1, 16), nn.Conv1d(16, 32, 3, padding=2**k, dilation=2**k), nn.PReLU(), nn.Conv1d(32, 16, 1)
            )
            for k in range(4)
        )
        self.masks = nn.Conv1d(16, 32, 1)

    def forward(self, mix: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
        h = e = F.relu(self.encoder(mix))
        for layer in self.net:
            h = h + layer(h)
        masks = torch.sigmoid(self.masks(h)).chunk(2, 1)
        out = torch.cat([self.decoder(e * m) for m in masks], 1)
        noise = (out - sources).square().sum(-1)
        return -10 * torch.log10(sources.square().sum(-1) / (noise + 1e-8) + 1e-8).mean()


@situation(
    "speechbrain/speechbrain/issues/1850",
    MaskNet,
    data=lambda: (
        torch.randn(1, 1, 4000),
        torch.randn(1, 2, 4000),
    ),
)
def speech_separation_at_batch_one(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class Dense(nn.Module):
    """Concatenations of all earlier results, with batch normalisation under checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(8 + 4 * k), nn.ReLU(), nn.Conv2d(8 + 4 * k, 4, 3, padding=1)) for k in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        every = [x]
        for layer in self.layers:
            every.append(layer(torch.cat(every, 1)))
        return torch.cat(every, 1).square().mean()


@situation("gpleiss/efficient_densenet_pytorch/issues/73", Dense, data=lambda: (torch.randn(4, 8, 16, 16),))
def statistics_of_a_dense_network(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class NormCheckpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm1d(10, momentum=0.001), nn.Linear(10, 10), nn.BatchNorm1d(10), nn.Linear(10, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.body, x, use_reentrant=False).mean()


@situation("pytorch/pytorch/issues/62471", NormCheckpointed, data=lambda: (torch.randn(8, 10).requires_grad_(),))
def statistics_under_a_checkpoint(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class ConvNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.bn(self.conv(x))).square().mean()


@situation("Tencent/YOLO-Master/issues/262", ConvNorm, data=lambda: (torch.randn(2, 3, 8, 8),))
def batches_counted_once(model: Any, x: torch.Tensor) -> list[torch.Tensor]:
    return [*trained(model, x), model.bn.num_batches_tracked.clone()]


def faces() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.PReLU(8), nn.Flatten(), nn.Linear(512, 16))


@situation(
    "deepinsight/insightface/issues/2053",
    faces,
    data=lambda: (torch.randn(8, 3, 10, 10), F.normalize(torch.randn(5, 16)), torch.arange(8) % 5),
)
def margin_of_angles(model: Any, x: torch.Tensor, centres: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    features = F.normalize(model(x))
    cosines = (features @ centres.t()).clamp(-0.999, 0.999)
    loss = F.cross_entropy(30 * torch.cos(torch.acos(cosines) + 0.1), labels)
    loss.backward()
    return [loss]


@situation("facebookresearch/fairscale/issues/1035", lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)))
def statistics_without_gradients(model: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        before = model(torch.randn(2, 4, 16, 16))
    loss = model(torch.randn(2, 4, 16, 16)).square().mean()
    loss.backward()
    return [before, loss, model[1].running_mean.clone()]


@situation("hszhao/semseg/issues/60", UNet)
def validation_with_gradients(model: Any) -> list[torch.Tensor]:
    x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 4, (2, 32, 32))
    losses = trained(model, x, y)
    model.eval()
    losses += [model(x, y) for _ in range(2)]
    model.train()
    return losses


@situation(
    "facebookresearch/SlowFast/issues/411",
    lambda: nn.Sequential(nn.Conv3d(3, 8, 3), nn.BatchNorm3d(8), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 4)),
)
def predictions_kept_in_a_list(model: Any) -> list[torch.Tensor]:
    loss = model(torch.randn(2, 3, 6, 10, 10)).square().mean()
    loss.backward()
    model.eval()
    with torch.no_grad():
        kept = [model(torch.randn(2, 3, 6, 10, 10)) for _ in range(3)]
    model.train()
    return [loss, *kept]


class Graph(nn.Module):
    """Two rounds of messages along the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for layer in (self.a, self.b):
            x = layer(torch.zeros_like(x).index_add(0, target, x[source]) + x)
            x = F.dropout(F.relu(x), 0.2, self.training)
        return F.cross_entropy(x, y)


def edges() -> tuple[torch.Tensor, ...]:
    return torch.randn(50, 16), torch.randint(0, 50, (300,)), torch.randint(0, 50, (300,)), torch.randint(0, 4, (50,))


@situation("dmlc/dgl/issues/745", Graph, data=edges)
def messages_of_a_graph(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


def residual() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.Softplus(), nn.Conv2d(8, 8, 3), nn.Softplus(), nn.Flatten(), nn.Linear(288, 10)
    )


@situation("pytorch/pytorch/issues/7714", residual)
def penalty_on_gradients_of_images(model: Any) -> list[torch.Tensor]:
    x = torch.rand(8, 3, 8, 8, requires_grad=True)
    loss = F.cross_entropy(model(x), torch.arange(8))
    (grad,) = torch.autograd.grad(loss, x, create_graph=True, retain_graph=True)
    total = loss + grad.square().mean() * 8
    total.backward()
    return [total]


def critic() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))


def penalty(model: Any, x: torch.Tensor) -> torch.Tensor:
    x = x.requires_grad_()
    (grad,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return (grad.norm(2, 1) - 1).square().mean()


@situation("caogang/wgan-gp/issues/21", critic)
def three_backward_calls_of_a_critic(model: Any) -> list[torch.Tensor]:
    real, fake = torch.randn(32, 16), torch.randn(32, 16)
    first, second, third = -model(real).mean(), model(fake).mean(), penalty(model, 0.5 * (real + fake))
    for loss in (first, second, third):
        loss.backward()
    return [first, second, third]


@situation("pytorch/pytorch/issues/64586", critic)
def one_backward_of_a_critic(model: Any) -> list[torch.Tensor]:
    real, fake = torch.randn(32, 16), torch.randn(32, 16)
    loss = model(fake).mean() - model(real).mean() + 10 * penalty(model, 0.5 * (real + fake))
    loss.backward()
    return [loss]


class Pair(nn.Module):
    """Generator and discriminator of a GAN."""

    def __init__(self) -> None:
        super().__init__()
        self.g, self.d = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)), critic()

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.d(self.g(z)).mean()


@situation("pytorch/pytorch/issues/91542", Pair)
def discriminator_then_generator(model: Any) -> list[torch.Tensor]:
    fake = model.g(torch.randn(16, 8))
    first = model.d(fake.detach()).mean()
    first.backward()
    second = model.d(fake).mean()
    second.backward()
    return [first, second, model(torch.randn(4, 8))]


class Broken(nn.Module):
    """A print in the middle of the model breaks the captured graph."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * x * x * self.w
        print(end="")
        return (y * y).sum()


@situation("pytorch/pytorch/issues/91469", Broken)
def second_derivative_behind_a_break(model: Any) -> list[torch.Tensor]:
    x = torch.rand(5, requires_grad=True)
    (first,) = torch.autograd.grad(model(x), x, create_graph=True)
    second = first.square().sum()
    second.backward()
    return [first, second, x.grad]


@situation("pytorch/pytorch/issues/181581", lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1)))
def inner_step_of_a_meta_learner(model: Any) -> list[torch.Tensor]:
    x, y = torch.randn(12, 6), torch.randn(12, 1)
    inner = F.mse_loss(model(x), y)
    grads = torch.autograd.grad(inner, list(model.parameters()), create_graph=True)
    fast = [p - 0.1 * g for p, g in zip(model.parameters(), grads)]
    outer = F.mse_loss(torch.tanh(x @ fast[0].t() + fast[1]) @ fast[2].t() + fast[3], y)
    outer.backward()
    return [inner, outer]


class Words(nn.Module):
    """A small language model with a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True) for _ in range(2))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        logits = x @ self.words.weight.t()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), words[:, 1:].flatten())


@situation("pytorch/pytorch/issues/117106", Words)
def prompts_of_several_lengths(model: Any) -> list[torch.Tensor]:
    return [loss for n in (8, 12, 9) for loss in trained(model, torch.randint(0, 50, (2, n)))]


@situation("pytorch/pytorch/issues/188150", Words)
def padding_to_the_longest_of_a_batch(model: Any) -> list[torch.Tensor]:
    return [loss for n in (6, 7, 8, 9) for loss in trained(model, torch.randint(0, 50, (4, n)))]


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, 2, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(out).square().mean()


@situation("pytorch/xla/issues/1522", Packed)
def packed_sequences(model: Any) -> list[torch.Tensor]:
    return trained(model, torch.randn(3, 10, 8), torch.tensor([10, 4, 7]))


@situation("pytorch/pytorch/issues/2198", lambda: nn.GRU(8, 16, 2))
def state_carried_over_steps(model: Any) -> list[torch.Tensor]:
    hidden, losses = None, []
    for _ in range(3):
        out, hidden = model(torch.randn(5, 2, 8), hidden)
        hidden = hidden.detach()
        loss = out.square().mean()
        loss.backward()
        losses.append(loss)
    return losses


class Policy(nn.Module):
    """An LSTM cell along an episode; the log probabilities are summed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.linear = nn.LSTMCell(5, 32), nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(x.shape[1], 32)
        total = torch.zeros(x.shape[1])
        for step in x:
            h, c = self.lstm(step, (h, c))
            total[:] = total + F.log_softmax(self.linear(h), -1)[:, 0]
        return -total.mean()


@situation("pytorch/pytorch/issues/1536", Policy, data=lambda: (torch.randn(4, 100, 5),))
def log_probabilities_summed_in_place(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


def adapted(kind: str, reentrant: bool) -> nn.Module:
    """A transformer of random weights with LoRA, gradient checkpointing, and inputs that require gradients."""
    import transformers
    from peft import LoraConfig, get_peft_model

    if kind == "t5":
        config = transformers.T5Config(
            vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
        model: Any = transformers.T5ForConditionalGeneration(config)
        lora = LoraConfig(r=4, target_modules=["q", "v"], lora_dropout=0.05, task_type="SEQ_2_SEQ_LM")
    else:
        config = transformers.LlamaConfig(
            vocab_size=60,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
        model = transformers.LlamaForCausalLM(config)
        lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(model, lora)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    model.enable_input_require_grads()
    return model.train()


def language_step(model: Any) -> list[torch.Tensor]:
    words = torch.randint(1, 60, (2, 12))
    loss = model(input_ids=words, labels=words).loss
    loss.backward()
    return [loss]


@situation("huggingface/transformers/issues/23170", lambda: adapted("llama", True), needs=("transformers", "peft"))
def frozen_parameters_under_checkpoints(model: Any) -> list[torch.Tensor]:
    return language_step(model)


@situation("huggingface/peft/issues/137", lambda: adapted("t5", True), needs=("transformers", "peft"))
def adapters_of_an_encoder_and_decoder(model: Any) -> list[torch.Tensor]:
    return language_step(model)


@situation("huggingface/peft/issues/1142", lambda: adapted("llama", False), needs=("transformers", "peft"))
def adapters_with_checkpoints_that_are_not_reentrant(model: Any) -> list[torch.Tensor]:
    return language_step(model)


def efficient_net() -> nn.Module:
    import timm

    return timm.create_model("efficientnet_b0", num_classes=4, drop_rate=0.2)


@situation(
    "lukemelas/EfficientNet-PyTorch/issues/284",
    efficient_net,
    data=lambda: (torch.randn(2, 3, 32, 32), torch.tensor([0, 1])),
    needs=("timm",),
)
def efficient_net_at_a_small_batch(model: Any, x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    return [loss]
