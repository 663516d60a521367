"""Further situations of public threads: steps of several calls, gradients of gradients, sequences, adapters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from threads.situations import UNet, situation, trained


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
    """A line that PyTorch does not capture, in the middle of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * x * x * self.w
        torch._dynamo.graph_break()
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
