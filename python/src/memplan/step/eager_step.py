"""The memory requests of a user's whole training step, which runs eagerly on the meta device.

The step runs without memory: PyTorch computes shapes only. A mode observes each operator, so that all variables of the loop
count: batches, outputs, caches, gradients, optimizer state and temporaries of optimizers.
"""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn

from memplan.errors import MemplanError
from memplan.graph.attention import HALVES, attention_on
from memplan.library.quantities import AllocatorUse
from memplan.memory.allocator import UNLIMITED, Settings
from memplan.step.quantized_weights import quantize
from memplan.step.stated_card import Card, answering
from memplan.step.temporaries import in_place_form, temporaries
from memplan.torch_internals.dispatch import watching
from memplan.torch_internals.modules import COMPILED, inside
from memplan.torch_internals.tensors import tree_iter
from memplan.torch_internals.without_gpu import is_in_backward, meta_as_gpu

CALLS = 3  # number of calls of the step; the first one creates the optimizer's state
DEPTH = 4  # levels of functions in which memplan searches a call of backward
PRODUCTS = ("aten.mm.", "aten.bmm.", "aten.addmm.", "aten.baddbmm.")  # operators that need a workspace of cuBLAS
ZEROS = ("aten.new_zeros.", "aten.zeros.", "aten.zeros_like.")
NOT_META = (
    "the estimate of a whole step runs it on the meta device; build the model and the optimizer within"
    " `with torch.device('meta'):`"
)
FUSED_UPDATES = ("aten._fused_adam", "aten._fused_sgd_", "aten._fused_adagrad_")  # they overwrite their operands
COMPILED_AS_EAGER = "memplan counts the code that torch.compile compiled as if PyTorch ran it eagerly"
READS_VALUES = "the step reads values of tensors, such as loss.item(); memplan assumes 0 and False"


class Requests:
    """The memory requests of an eager run in order.

    Attributes:
        events: pairs (number, bytes). The first pair of a number allocates; a pair with 0 bytes frees. The pair (0, 0) is the
            first matrix product of a thread, which allocates the workspace of its cuBLAS handle. Backward has its own thread.
        operators: names of the operators of the run.
    """

    def __init__(self, card: Card | None = None) -> None:
        self.card = card  # GPU that the step is estimated for
        self.events: list[tuple[int, int]] = []
        self.operators: set[str] = set()
        self.numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # by storage
        self.same: dict[int, int] = {}  # numbers of sums of gradients that use the memory of another number
        self.n = 0
        self.reads_values = self.has_halves = self.is_over = False
        self.products_in: set[bool] = set()  # whether a product ran in forward (False) and in backward (True)
        self._zeros: Any = None  # result of the last operator if it is a tensor of zeros
        self._sum: tuple[int, int, int] | None = None  # number, addend's number and bytes of a sum whose memory is unknown
        self._freed: list[int] = []  # numbers that were freed after this sum

    def exists(self, value: Any) -> None:
        """Count a tensor that exists before the operators."""
        if self._is_new(value):
            self._allocate(value.untyped_storage(), 0)

    def _is_new(self, value: Any) -> bool:
        is_meta = isinstance(value, torch.Tensor) and value.device.type == "meta"
        return is_meta and value.untyped_storage() not in self.numbers

    def _allocate(self, storage: Any, addend: int) -> None:
        self.settle()
        self.n += 1
        number, n_bytes = self.n, int(storage.nbytes())
        self.numbers[storage] = number
        if not n_bytes:
            return
        weakref.finalize(storage, self._free, number).atexit = False
        if addend:
            self._sum = number, addend, n_bytes
        else:
            self.events.append((number, n_bytes))

    def _free(self, number: int) -> None:
        number = self.same.get(number, number)
        if self.is_over:
            return
        if self._sum is None:
            self.events.append((number, 0))
        elif number == self._sum[1]:  # PyTorch's engine adds into the first addend if it holds the only reference
            self.same[self._sum[0]] = number
            self._sum = None
            self.settle()
        else:
            self._freed.append(number)

    def end(self) -> None:
        """End the recording."""
        self.settle()
        self.is_over = True

    def settle(self) -> None:
        """Append the events that waited for the addend of a sum."""
        if self._sum is not None:
            self.events.append((self._sum[0], self._sum[2]))
        self._sum = None
        self.events += [(number, 0) for number in self._freed]
        self._freed.clear()

    def run(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, and record the memory of its results."""
        name = str(operator)
        if name.startswith("aten._local_scalar_dense") and args[0].device.type == "meta":
            self.reads_values = True
            return zero(args[0].dtype)
        for value in tree_iter((args, kwargs)):
            self.exists(value)
        if name.startswith(PRODUCTS) and is_in_backward() not in self.products_in:
            self.products_in.add(is_in_backward())
            self.settle()
            self.events.append((0, 0))
        self.operators.add(name)
        if name.startswith(FUSED_UPDATES):
            return None
        if is_in_backward() and args and args[0] is self._zeros:
            operator = in_place_form(operator)
        result = operator(*args, **kwargs)
        self._zeros = result if name.startswith(ZEROS) else None
        addend = self._addend(name, args, kwargs, result)
        for value in tree_iter(result):
            if self._is_new(value):
                self._allocate(value.untyped_storage(), addend)
                self.has_halves = self.has_halves or value.dtype in HALVES
        self._allocate_for_a_while([n for n in temporaries(name, args, kwargs, result, self.card) if n])
        return result

    def _allocate_for_a_while(self, sizes: Sequence[int]) -> None:
        """Record tensors that an operator allocates beside its results, and frees at its end."""
        if sizes:
            self.settle()
            numbers = range(self.n + 1, self.n + 1 + len(sizes))
            self.events += [*zip(numbers, sizes), *((number, 0) for number in numbers)]
            self.n += len(sizes)

    def _addend(self, name: str, args: Any, kwargs: Any, result: Any) -> int:
        """Return the number of the first addend if backward adds two gradients, else 0."""
        if name != "aten.add.Tensor" or kwargs or not is_in_backward() or not isinstance(args[1], torch.Tensor):
            return 0
        first = args[0].untyped_storage()
        if args[0]._is_view():  # a view refers to its base, so the engine never holds the only reference to the memory
            return 0
        is_like = args[0].device.type == "meta" and args[0].dtype == result.dtype
        is_whole = is_like and first.nbytes() == result.untyped_storage().nbytes()
        number = self.numbers.get(first, 0) if is_whole else 0
        return self.same.get(number, number)

    def allocator(self, settings: Settings, workspace_bytes: int, limit: int = UNLIMITED) -> AllocatorUse:
        """Return the peaks of an allocator that serves all requests. Raises allocator.OutOfMemory above the limit."""
        events = [(number, n_bytes) if number else (-1 - k, workspace_bytes) for k, (number, n_bytes) in enumerate(self.events)]
        return settings.serve(events, limit)


def zero(dtype: torch.dtype) -> Any:
    return False if dtype == torch.bool else 0.0 if dtype.is_floating_point else 0


def functions_in(call: Any) -> Iterator[Any]:
    """Yield the functions and objects that a function refers to, and the names of attributes that it reads."""
    call = getattr(call, "__func__", call)
    code = getattr(call, "__code__", None)
    if not isinstance(code, types.CodeType):
        return
    yield from code.co_names
    for name in code.co_names:
        yield getattr(call, "__globals__", {}).get(name)
    for cell in getattr(call, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents


def runs_backward(call: Any, depth: int = DEPTH) -> bool:
    """Whether a function, or a function that it refers to, reads an attribute named `backward`: it is a whole step."""
    if isinstance(call, nn.Module):
        return False
    for found in functions_in(call):
        if found == "backward":
            return True
        if depth and isinstance(found, (types.FunctionType, types.MethodType)) and runs_backward(found, depth - 1):
            return True
    return False


def modules_in(call: Any, depth: int = DEPTH) -> list[nn.Module]:
    """Return the modules that a function refers to."""
    owner = getattr(call, "__self__", None)
    found = [owner] if isinstance(owner, nn.Module) else []
    for value in functions_in(call):
        if isinstance(value, nn.Module):
            found.append(value)
        elif depth and isinstance(value, (types.FunctionType, types.MethodType)):
            found += modules_in(value, depth - 1)
    return list(dict.fromkeys(found))


def is_compiled_in(call: Any, depth: int = DEPTH) -> bool:
    """Whether a function refers to a module or a function that torch.compile has compiled."""
    for value in functions_in(call):
        if isinstance(value, nn.Module) and any(inside(m) is not None or COMPILED in vars(m) for m in value.modules()):
            return True
        is_function = isinstance(value, (types.FunctionType, types.MethodType))
        if is_function and (hasattr(value, "_torchdynamo_orig_callable") or (depth and is_compiled_in(value, depth - 1))):
            return True
    return False


def tensors_in_order(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield parameters and buffers in the order in which `module.to(device)` moves them."""
    for child in module.children():
        yield from tensors_in_order(child)
    yield from (p for p in module.parameters(recurse=False))
    yield from (b for b in module.buffers(recurse=False))


def new_like(value: Any) -> Any:
    return torch.empty_like(value, device="meta") if isinstance(value, torch.Tensor) else value


def recorded_step(
    step: Callable[..., Any],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    has_flash: bool,
    calls: int = CALLS,
    card: Card | None = None,
) -> Requests:
    """Run a step several times on the meta device, like a loop that makes a new batch for each step and keeps the last result.

    Args:
        step: a function that runs forward, backward and the optimizer.
        inputs: the arguments of one call. Each call receives new tensors of the same layout.
        kwargs: keyword arguments of one call.
        has_flash: whether the GPU has flash attention.
        calls: number of calls.
        card: the GPU whose properties the step can read.

    Raises:
        MemplanError: tensors of the step are not on the meta device, or the step fails there.
    """
    models = modules_in(step)
    if any(t.device.type != "meta" for m in models for t in tensors_in_order(m)):
        raise MemplanError(NOT_META)
    scales = quantize(t for m in models for t in tensors_in_order(m))
    requests = Requests(card)
    answers = answering(card) if card is not None else contextlib.nullcontext()
    with meta_as_gpu(attention_on(True, has_flash)), answers, watching(requests.run):
        for tensor in [*(t for m in models for t in tensors_in_order(m)), *scales]:
            requests.exists(tensor)
        result = given = None
        for _ in range(calls):
            given = fx.node.map_aggregate((tuple(inputs), dict(kwargs)), new_like)
            try:
                result = step(*given[0], **given[1])
            except MemplanError:
                raise
            except Exception as error:
                first = str(error).strip().partition("\n")[0]
                raise MemplanError(f"the step fails on the meta device: {type(error).__name__}: {first}") from error
        requests.end()
        del result, given
    return requests
