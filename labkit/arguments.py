"""A launch's arguments: matched to the compiled signature, converted, or refused by name."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from .errors import LabError


class Param(Protocol):
    """A kernel parameter as PTX declares it: type "u64", "f32", …, size in bytes."""

    @property
    def type(self) -> str: ...
    @property
    def size(self) -> int: ...


@dataclass(frozen=True)
class Bound:
    """One argument ready to launch: an array, or the bytes of a scalar or struct."""

    name: str
    array: Any
    scalar: bytes
    value: Any


# C type → (NumPy kind, bytes); vector types count by their element.
_ELEMENTS = {
    "float": ("f", 4),
    "double": ("f", 8),
    "__half": ("f", 2),
    "half": ("f", 2),
    "char": ("iu", 1),
    "signed char": ("iu", 1),
    "unsigned char": ("iu", 1),
    "bool": ("b", 1),
    "short": ("iu", 2),
    "unsigned short": ("iu", 2),
    "int": ("iu", 4),
    "unsigned": ("iu", 4),
    "unsigned int": ("iu", 4),
    "long long": ("iu", 8),
    "unsigned long long": ("iu", 8),
    "int8_t": ("iu", 1),
    "uint8_t": ("iu", 1),
    "int16_t": ("iu", 2),
    "uint16_t": ("iu", 2),
    "int32_t": ("iu", 4),
    "uint32_t": ("iu", 4),
    "int64_t": ("iu", 8),
    "uint64_t": ("iu", 8),
    "size_t": ("iu", 8),
    "__nv_bfloat16": ("bfuiV", 2),  # NumPy has no such type: its 16 bits are passed
}
_QUALIFIERS = re.compile(r"\b(const|volatile|__restrict__|__restrict|__grid_constant__|struct|restrict)\b")
_COMMENTS = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|//[^\n]*|/\*.*?\*/', re.S)
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|\s+|.', re.S)


def without_comments(source: str) -> str:
    """CUDA C with comments dropped and blank space folded, so that only a change of code changes it."""
    code = _COMMENTS.sub(lambda match: match.group(1) or " ", source)
    lines = []
    for line in code.splitlines():
        tokens = [token for token in _TOKEN.findall(line) if not token.isspace()]
        if tokens:
            lines.append(" ".join(tokens))
    # A preprocessor line ends at its line break; elsewhere a line break is only blank space.
    return "".join(f"\n{line}\n" if line.startswith("#") else f"{line} " for line in lines)


@dataclass(frozen=True)
class Declared:
    """A parameter as the source declares it: its name, its C type without qualifiers, pointer or not."""

    name: str
    type: str
    pointer: bool


def declared_types(source: str, name: str) -> tuple[Declared, ...]:
    """The parameters of `__global__ … name(…)` as written; empty where they cannot be read (macros, say)."""
    code = _COMMENTS.sub(lambda match: match.group(1) or " ", source)
    plain = re.escape(re.split(r"[<(]", name)[0].split("::")[-1])
    match = re.search(rf"__global__[^;{{}}]*?\b{plain}\s*\(([^)]*)\)", code)
    if match is None or not match.group(1).strip():
        return ()
    return tuple(_declared(text) for text in match.group(1).split(","))


def _declared(text: str) -> Declared:
    pointer = "*" in text or "[" in text
    words = _QUALIFIERS.sub(" ", text.replace("*", " ").replace("&", " ").split("[")[0]).split()
    return Declared(words[-1] if len(words) > 1 else "", " ".join(words[:-1]) or text.strip(), pointer)


def bind(kernel: str, params: Sequence[Param], declared: tuple[Declared, ...], args: Sequence[Any]) -> list[Bound]:
    """Match `args` to the compiled signature. Raises LabError for a wrong count, type, width or layout."""
    if not isinstance(args, tuple | list):
        raise LabError(f"launch `{kernel}`", f"args is a {type(args).__name__}", "a tuple: (a, b, n)")
    if len(declared) != len(params):
        declared = tuple(Declared("", "", False) for _ in params)
    if len(args) != len(params):
        wanted = ", ".join(f"{d.type}{'*' if d.pointer else ''} {d.name}".strip() for d in declared) or "no arguments"
        raise LabError(
            f"launch `{kernel}` with {len(args)} arguments",
            f"it takes {len(params)}: {wanted}",
            "one per parameter",
        )
    names = [d.name or f"argument {i + 1}" for i, d in enumerate(declared)]
    return [_bind_one(kernel, *four) for four in zip(names, params, declared, args, strict=True)]


def _bind_one(kernel: str, name: str, param: Param, declared: Declared, arg: Any) -> Bound:
    try:
        if _is_array(arg):
            _check_array(name, param, declared, arg)
            return Bound(name, arg, b"", arg)
        if declared.pointer:
            raise _Misfit(f"{name} is a pointer ({declared.type}*)", "an array: NumPy, CuPy or torch")
        return _bind_scalar(name, param, declared, arg)
    except _Misfit as misfit:
        raise LabError(f"launch `{kernel}` with {name} = {_describe(arg)}", misfit.found, misfit.try_) from None


class _Misfit(Exception):
    """What is found wrong with one argument; who wanted it is added where the kernel is known."""

    def __init__(self, found: str, try_: str) -> None:
        super().__init__(found, try_)
        self.found, self.try_ = found, try_


def _bind_scalar(name: str, param: Param, declared: Declared, arg: Any) -> Bound:
    kind, c_type = param.type[0], declared.type or param.type
    if isinstance(arg, np.generic):
        if arg.nbytes != param.size or (kind == "f") != (arg.dtype.kind == "f" and kind != "b"):
            found = f"{name} is a {c_type} of {param.size} B, the argument a {arg.dtype} of {arg.nbytes} B"
            raise _Misfit(found, f"a Python number, or numpy.{_numpy_name(kind, param.size, declared)}(…)")
        return Bound(name, None, arg.tobytes(), arg)
    if isinstance(arg, bytes) and len(arg) == param.size:
        return Bound(name, None, arg, np.frombuffer(arg, f"V{param.size}"))  # CuPy passes an array of one by value
    if isinstance(arg, bool | int | float) and param.type[1:].isdigit():
        if isinstance(arg, float) and kind != "f":
            raise _Misfit(f"{name} is a {c_type}: a fraction does not fit", f"int({name})")
        value = _converted(name, param, declared, arg)
        return Bound(name, None, value.tobytes(), value)
    raise _Misfit(f"{name} is a {c_type} of {param.size} B", "a number of that type, or its bytes for a struct")


def _numpy_name(kind: str, size: int, declared: Declared) -> str:
    if kind == "f":
        return f"float{8 * size}"
    unsigned = declared.type.startswith(("unsigned", "uint")) or declared.type == "size_t"
    return f"{'uint' if unsigned else 'int'}{8 * size}"


def _converted(name: str, param: Param, declared: Declared, arg: float) -> np.generic:
    if param.type[0] == "f":
        value: np.generic = np.dtype(f"f{param.size}").type(arg)
        return value
    bits = 8 * param.size
    unsigned = _numpy_name("i", param.size, declared).startswith("u")
    low, high = (0, 1 << bits) if unsigned else (-(1 << bits - 1), 1 << (bits if not declared.type else bits - 1))
    if not low <= arg < high:
        raise _Misfit(f"{name} holds {low:,} to {high - 1:,}", "a value in that range, or a wider parameter")
    return _whole(int(arg) & ((1 << bits) - 1), param.size)


@functools.lru_cache(maxsize=1024)
def _whole(number: int, size: int) -> np.generic:
    made: np.generic = np.frombuffer(struct.pack("<Q", number)[:size], f"u{size}")[0]
    return made


def _is_array(arg: Any) -> bool:
    return isinstance(arg, np.ndarray) or _is_tensor(arg) or hasattr(arg, "__cuda_array_interface__")


def _is_tensor(arg: Any) -> bool:
    return type(arg).__module__.split(".")[0] == "torch" and hasattr(arg, "data_ptr")


def _contiguous(arg: Any) -> bool:
    return bool(arg.is_contiguous()) if _is_tensor(arg) else bool(arg.flags.c_contiguous or arg.flags.f_contiguous)


def _check_array(name: str, param: Param, declared: Declared, arg: Any) -> None:
    if param.size != 8 or (declared.type and not declared.pointer):
        raise _Misfit(f"{name} is a {declared.type or param.type}, not a pointer", "a number")
    if not _contiguous(arg):
        fix = f"{name}.contiguous()" if _is_tensor(arg) else f"xp.ascontiguousarray({name})"
        raise _Misfit("its elements do not lie side by side, as the kernel assumes", fix)
    if not _is_tensor(arg) and isinstance(arg, np.ndarray) and arg.dtype.hasobject:
        raise _Misfit("an array of Python objects", "an array of numbers")
    wanted = _element(declared.type)
    kind, size = _kind(arg)
    # Raw bytes (uint8) are accepted for any pointer: they are how structs are passed.
    if wanted is None or (kind, size) == ("u", 1):
        return
    if kind not in wanted[0] or size != wanted[1]:
        found = f"the kernel reads {name} as {declared.type}*, the array holds {_dtype(arg)}"
        raise _Misfit(found, f"{name} as {declared.type}")


@functools.cache
def _element(c_type: str) -> tuple[str, int] | None:
    """NumPy kinds and bytes of a C type; of one element for a vector type; None for what is not known."""
    return _ELEMENTS.get(c_type) or _ELEMENTS.get(re.sub(r"[1-4]$", "", c_type))


def _dtype(arg: Any) -> str:
    return str(arg.dtype).replace("torch.", "")


def _kind(arg: Any) -> tuple[str, int]:
    if not _is_tensor(arg):
        return str(arg.dtype.kind), int(arg.dtype.itemsize)
    return _tensor_kind(arg.dtype)


@functools.cache
def _tensor_kind(dtype: Any) -> tuple[str, int]:
    name = str(dtype).replace("torch.", "")
    kind = (
        "bf"
        if name == "bfloat16"
        else {"float": "f", "uint": "u", "int": "i", "bool": "b"}.get(re.sub(r"\d+$", "", name), "?")
    )
    return ("b" if kind == "bf" else kind), int(dtype.itemsize)


def _describe(arg: Any) -> str:
    if _is_array(arg):
        return f"an array of {_dtype(arg)}, shape {tuple(arg.shape)}"
    return f"{arg!r} ({type(arg).__name__})"


def host_buffer(array: Any) -> tuple[np.ndarray[Any, Any], int, int]:
    """(bytes of the whole allocation, offset, size): a NumPy or CPU tensor in place, a GPU array as a copy."""
    if _is_tensor(array):
        if array.device.type != "cpu":
            array = array.detach().cpu()
        size = array.numel() * array.element_size()
        storage = np.frombuffer(_storage_bytes(array), np.uint8)
        return storage, array.storage_offset() * array.element_size(), size
    if not isinstance(array, np.ndarray):
        array = array.get()
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not (root.flags.c_contiguous or root.flags.f_contiguous):
        root = array
    flat = root.reshape(-1, order="A").view(np.uint8)
    return flat, array.ctypes.data - root.ctypes.data, array.nbytes


def _storage_bytes(tensor: Any) -> Any:
    import ctypes

    storage = tensor.untyped_storage()
    pointer, size = storage.data_ptr(), storage.nbytes()
    block: Any = (ctypes.c_uint8 * size).from_address(pointer) if size else (ctypes.c_uint8 * 0)()
    block._keep = storage  # the memory is torch's: it must outlive this view
    return block


def on_gpu(cp: ModuleType, bound: Bound) -> tuple[Any, Any]:
    """(what RawKernel takes, host array to copy back into or None)."""
    if bound.array is None:
        return bound.value, None
    if _is_tensor(bound.array):
        if bound.array.is_cuda:  # its address alone: a view of it by CuPy costs more than the launch
            return np.uint64(bound.array.data_ptr()), None
        import torch

        host = bound.array.detach().view(-1).view(torch.uint8).numpy()
        return cp.asarray(host), host
    if isinstance(bound.array, cp.ndarray):
        return bound.array, None
    return cp.asarray(bound.array), bound.array if isinstance(bound.array, np.ndarray) else None
