"""Habits of training loops."""

from __future__ import annotations

import contextlib
import copy

import torch
import torch.nn.functional as F
from torch import nn

from habits.trial import BUDGET, Net, Scores, Trial, habit, pair, train

LOOP = "the loop"


@habit(LOOP, "forward, backward, step, `zero_grad`")
def plain(t: Trial) -> None:
    train(t, Net(), 3)


@habit(LOOP, "a scheduler of the learning rate")
def scheduled(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
    for k in range(3):
        optimizer.zero_grad()
        compiled(*pair(k)).backward()
        optimizer.step()
        scheduler.step()
    t.keep_state(model)


@habit(LOOP, "clipping by the norm of all gradients")
def clipped(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for k in range(2):
        optimizer.zero_grad()
        compiled(*pair(k)).backward()
        t.keep("norm", nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        optimizer.step()
    t.keep_state(model)


@habit(LOOP, "an exponential moving average of the weights")
def averaged(t: Trial) -> None:
    model = Net()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    compiled = t.compile(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for k in range(3):
        optimizer.zero_grad()
        compiled(*pair(k)).backward()
        optimizer.step()
        average.update_parameters(model)
    t.keep_state(model, average)


@habit(LOOP, "gradients of several batches added up, with `accumulate=True`")
def accumulated(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, accumulate=True)
    optimizer = torch.optim.AdamW(model.parameters())
    for k in range(4):
        (compiled(*pair(k)) / 2).backward()
        if k % 2:
            optimizer.step()
            optimizer.zero_grad()
    t.keep_state(model)


@habit(LOOP, "a `GradScaler`")
def scaled(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for k in range(3):
        optimizer.zero_grad()
        scaler.scale(compiled(*pair(k))).backward()
        scaler.step(optimizer)
        scaler.update()
    t.keep("scale", torch.tensor(scaler.get_scale()))
    t.keep_state(model)


@habit(LOOP, "evaluation between steps, under `no_grad`")
def evaluated(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for k in range(2):
        model.train()
        optimizer.zero_grad()
        compiled(*pair(k)).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            t.keep("evaluated", compiled(*pair(k + 10)))
    t.keep_state(model)


@habit(LOOP, "evaluation between steps, under `inference_mode`")
def inferred(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    for k in range(2):
        model.train()
        model.zero_grad()
        compiled(*pair(k)).backward()
        model.eval()
        with torch.inference_mode():
            t.keep("evaluated", compiled(*pair(k + 10)))
    t.keep_state(model)


@habit(LOOP, "a smaller last batch")
def smaller(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, "1MiB")
    for rows in (64, 64, 24, 64, 24):
        model.zero_grad()
        compiled(*pair(1, rows)).backward()
        t.keep_state(model)


@habit(LOOP, "layers frozen, and unfrozen later")
def frozen(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, "1MiB")
    for frozen_now in (False, True, False):
        model.blocks[0].requires_grad_(not frozen_now)
        model.zero_grad()
        compiled(*pair()).backward()
        t.keep_state(model)


@habit(LOOP, "two optimizers, each for half of the parameters")
def two_optimizers(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    optimizers = [
        torch.optim.SGD(model.blocks.parameters(), lr=0.1),
        torch.optim.AdamW(model.head.parameters(), lr=0.1),
    ]
    for k in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        compiled(*pair(k)).backward()
        for optimizer in optimizers:
            optimizer.step()
    t.keep_state(model)


@habit(LOOP, "L-BFGS, whose step calls the model as often as it likes")
def many_calls_of_a_step(t: Trial) -> None:
    model = Net(0.0, 2)
    compiled = t.compile(model)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = compiled(*pair())
        loss.backward()
        return loss

    t.keep("loss", optimizer.step(closure))
    t.keep_state(model)


@habit(LOOP, "an optimizer whose state is counted (`optimizer=`)")
def counted_optimizer(t: Trial) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    compiled = t.compile(model, optimizer=optimizer)
    for k in range(2):
        optimizer.zero_grad()
        compiled(*pair(k)).backward()
        optimizer.step()
    t.keep_state(model)


@habit(LOOP, "`set_detect_anomaly(True)`")
def anomalies(t: Trial) -> None:
    with torch.autograd.set_detect_anomaly(True):
        train(t, Net(), 2)


@habit(LOOP, "a step repeated after the weights are restored")
def put_back(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    before = copy.deepcopy(model.state_dict())
    for _ in range(2):
        model.load_state_dict(before)
        model.zero_grad()
        torch.manual_seed(3)
        compiled(*pair()).backward()
        t.keep_state(model)


@habit(LOOP, "a learning rate range test: the model is copied, trained and thrown away")
def copied(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    other = copy.deepcopy(compiled)
    for side in (other, compiled):
        side(*pair()).backward()
        t.keep_state(side)


@habit(LOOP, "an exception in the midst of a step, and the next one")
def raised(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    with contextlib.suppress(RuntimeError):
        compiled(*pair())
        raise RuntimeError("data ran out")
    torch.manual_seed(1)
    compiled(*pair()).backward()
    t.keep_state(model)


@habit(LOOP, "GAN: two models, one frozen while the other learns")
def adversarial(t: Trial) -> None:
    maker, judge = Scores(layers=2), Scores(layers=2)
    make, score = t.compile(maker, "2MiB"), t.compile(judge, "2MiB")
    for k in range(2):
        noise, real = pair(k)
        judge.zero_grad()
        (F.softplus(score(make(noise).detach())).mean() + F.softplus(-score(real)).mean()).backward()
        t.keep_state(judge)
        maker.zero_grad()
        judge.requires_grad_(False)
        F.softplus(-score(make(noise))).mean().backward()
        judge.requires_grad_(True)
        t.keep_state(maker)


@habit(LOOP, "a teacher under `no_grad` and a student")
def distilled(t: Trial) -> None:
    teacher, student = Scores(0.0).eval(), Scores()
    teach, learn = t.compile(teacher), t.compile(student)
    for k in range(2):
        x, _ = pair(k)
        with torch.no_grad():
            wanted = teach(x)
        student.zero_grad()
        F.mse_loss(learn(x), wanted).backward()
    t.keep_state(student)


@habit(LOOP, "compiling again with another budget")
def compiled_again(t: Trial) -> None:
    model = Net()
    for budget in (BUDGET, "90%"):
        train(t, model, 1, budget=budget)
