"""python -m memplan: estimate, plan and fit for a model given by name, without a script."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import memplan
from memplan.command import UsageError, about
from memplan.command.inputs import make_inputs, read_inputs, read_lower, read_mesh, shard_options
from memplan.command.model import build, place_of, refusal
from memplan.costs.roofline import RATES
from memplan.mesh.rank_report import RankReport
from memplan.plan.options import names_of

META = torch.device("meta")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m memplan", description="Memory and time of a training step of a PyTorch model."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "model", metavar="MODULE:BUILD", help="function or class that builds the model, such as torchvision.models:resnet50"
    )
    shared.add_argument("--inputs", required=True, help="'(8,3,224,224)'; '(N,128) int64 <50257, mask=(N,128) bool'")
    shared.add_argument(
        "--device", help="device to plan for, such as h100; the model is built on the meta device and does not run"
    )
    shared.add_argument(
        "--rates",
        default="achieved",
        choices=RATES,
        help="speed of --device: of the data sheet, or as training runs reach it (%(default)s)",
    )
    shared.add_argument("--autocast", metavar="TYPE", help="torch.autocast type around the model, such as bfloat16")
    shared.add_argument("--optimizer", metavar="NAME", help="optimizer of torch.optim, such as AdamW; its state is counted")
    shared.add_argument("--accumulate", action="store_true", help="count the gradients of earlier batches")
    shared.add_argument("--reserve", default=0, metavar="BYTES", help="additional bytes to count")
    shared.add_argument("--offload", metavar="BYTES", help="bytes of host memory for copies")
    shared.add_argument("--link", help="speed of copies: pcie4 or 24GB/s")
    shared.add_argument("--effort", default="normal", choices=("quick", "normal", "thorough"), help="effort of the search")
    shared.add_argument("--cache", metavar="DIR", help="folder for measured costs; 'off' disables the cache")
    shared.add_argument("--mesh", metavar="dp=N,shard=N", help="estimate one rank of this mesh; the ranks need not exist")
    shared.add_argument("--precision", metavar="TYPE", help="type of gathered parameters, such as bfloat16")
    shared.add_argument("--json", action="store_true", help="print only the numbers of the report, as JSON")

    def command(name: str, help: str, budget: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[shared], help=help, description=help)
        made.add_argument("--budget", default=budget, help="8GiB, 60%%, min, min+50%%, auto (%(default)s)")
        return made

    for name, help, budget in (
        ("estimate", "show the memory of a step and its holders", "100%"),
        ("plan", "search a plan within a budget, and write its files", "auto"),
    ):
        made = command(name, help, budget)
        made.add_argument("--batch", type=int, help="value of N in the inputs")
        made.add_argument("--timeline", metavar="FILE.svg", help="memory over the step")
    made.add_argument("--graph", metavar="FILE.json", help="training graph for the command memplan")
    made.add_argument("--save", metavar="FILE.json", help="plan for the command memplan")
    fit = command("fit", "find the largest N whose step fits", "auto")
    fit.add_argument("--overhead", type=float, default=0.2, help="most extra time (%(default)s: a fifth)")
    fit.add_argument("--least", type=int, default=1, help="smallest N to try (%(default)s)")
    fit.add_argument("--step", type=int, default=1, help="step between the tried N (%(default)s)")
    fit.add_argument("--most", type=int, default=1 << 16, help="largest N to try (%(default)s)")
    return top


def options_of(asked: argparse.Namespace, model: torch.nn.Module) -> dict[str, Any]:
    options = {name: getattr(asked, name) for name in (*names_of("command"), "accumulate")}
    if asked.autocast:
        options["autocast"] = read_lower(asked.autocast)
    if asked.mesh:
        options |= {"mesh": read_mesh(asked.mesh), "shard": shard_options(asked.precision)}
    if asked.optimizer:
        kind = getattr(torch.optim, asked.optimizer, None)
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
            raise UsageError(f"torch.optim has no optimizer {asked.optimizer!r}")
        make: Any = kind
        try:
            options["optimizer"] = make(model.parameters())
        except (TypeError, ValueError) as error:
            # an optimizer may reject a model's parameters; for example, Muon accepts matrices only
            raise UsageError(f"{asked.optimizer} does not accept the parameters of this model: {error}") from None
    return options


@dataclass(frozen=True)
class Answer:
    """The result of a command: the report of an estimate or plan. `line` is one more line, printed before the report."""

    line: str
    report: memplan.Report
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer | None

    def numbers(self) -> dict[str, float]:
        return about.numbers(self.model, self.optimizer) | self.report.scalars()

    def text(self) -> str:
        more = [self.report.more()] if isinstance(self.report, RankReport) else []
        lines = [*about.sentences(self.model, self.optimizer), *more, *about.remedies(self.report)]
        return f"{self.line}{self.report}\n" + "\n".join(lines) + "\n"


def answer(asked: argparse.Namespace) -> Answer:
    """Execute the parsed command and return its result. Raises MemplanError."""
    inputs = read_inputs(asked.inputs)
    model = build(asked.model, META if asked.device else None)
    options, device = options_of(asked, model), place_of(model)
    batch = asked.least if asked.command == "fit" else asked.batch
    args, kwargs = make_inputs(inputs, device, batch)
    try:
        if asked.command != "fit":
            report = memplan.estimate(model, args, kwargs=kwargs, budget=asked.budget, **options)
            return Answer("", report, model, options.get("optimizer"))
        if all(n is not None for i in inputs for n in i.shape):
            raise UsageError("fit needs an input with N in its shape, such as '(N,3,224,224)'")
        if args and kwargs:
            raise UsageError("fit needs inputs that are either all positional or all named")
        which = 1 if kwargs else 0
        limits = {name: getattr(asked, name) for name in ("overhead", "least", "step", "most")}
        n, found = memplan.fit(model, lambda n: make_inputs(inputs, device, n)[which], asked.budget, **limits, **options)
    except memplan.BudgetError:
        raise
    except memplan.MemplanError as error:
        if (why := refusal(model, args, kwargs)) is not None:
            begins = f" (N = {batch}; start with a larger N by --least)" if asked.command == "fit" else ""
            raise UsageError(f"the model does not accept these inputs: {why}{begins}") from None
        raise error
    if found is None:
        raise memplan.BudgetError(f"even N = {asked.least} does not fit {asked.budget} at {asked.overhead:.0%} extra time")
    line = f"N = {n} is the largest that fits {asked.budget} at {asked.overhead:.0%} extra time\n"
    return Answer(line, found, model, options.get("optimizer"))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Disable PyTorch's error logs within the context. PyTorch raises the same errors as exceptions, which memplan reports."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def say(sentence: object) -> None:
    sys.stderr.write(f"memplan: {sentence}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return exit status 2 for invalid arguments, 1 for a failure, 0 for success."""
    asked = parser().parse_args(arguments)

    with warnings.catch_warnings(), quiet():
        warnings.showwarning = lambda warning, *_: say(warning)
        try:
            found = answer(asked)
            report = found.report
            told = json.dumps(found.numbers(), indent=1) + "\n" if asked.json else found.text()
            if getattr(asked, "timeline", None):
                report.timeline(asked.timeline)
            if getattr(asked, "graph", None):
                report.save(asked.graph)
            if getattr(asked, "save", None):
                report.save_plan(asked.save)
        except memplan.MemplanError as error:
            say(str(error).partition("\n\n")[0])
            return 2 if isinstance(error, UsageError) else 1
        except KeyboardInterrupt:
            return 130
    sys.stdout.write(told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
