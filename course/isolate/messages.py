"""What a session and its workers tell each other: msgpack, each message behind its length."""

import socket
import sys
from typing import Any, BinaryIO, get_type_hints

import msgspec

from course.errors import CourseError
from course.type_names import Function

from .ended import Ended

LENGTH_BYTES = 8


class Task(msgspec.Struct, frozen=True):
    """A function to call in a fork, and its limits."""

    function: str
    """Its module and name, as "course.lowering.worker:compile_kernel"."""
    arguments: bytes
    """Packed: see `pack_arguments`."""
    environ: dict[str, str]
    folder: str
    path: list[str]
    """For sys.path."""
    timeout_s: float
    """CPU time that it may take, with all that it starts."""
    wall_s: float
    """Seconds by the clock after which it is ended, for what sleeps or hangs."""
    asleep_s: float
    """Seconds by the clock after which it is ended if it only waits."""
    memory_bytes: int


class Reply(msgspec.Struct, frozen=True):
    """How a task ended."""

    ended: Ended[None]
    returned: bytes
    """A `Returned`, packed; empty if the function did not come to its end."""


class Returned(msgspec.Struct, frozen=True):
    """What came of a call: a value, or a CourseError that was raised."""

    value: msgspec.Raw = msgspec.Raw(b"\xc0")  # msgpack's None
    error: "Raised | None" = None


class Raised(msgspec.Struct, frozen=True):
    """A CourseError on its way to another process: its class, what it was made of, its kind."""

    module: str
    name: str
    arguments: list[Any]
    kind: str


def send(channel: socket.socket, message: msgspec.Struct) -> None:
    """Send a message, behind its length."""
    packed = msgspec.msgpack.encode(message)
    channel.sendall(len(packed).to_bytes(LENGTH_BYTES, "big") + packed)


def receive(stream: BinaryIO, kind: type[Any]) -> Any:
    """The next message, of this kind; None at the end of the stream, also within a message."""
    length = int.from_bytes(stream.read(LENGTH_BYTES), "big")
    packed = stream.read(length)
    return msgspec.msgpack.decode(packed, type=kind) if length and len(packed) == length else None


def pack_arguments(arguments: tuple[Any, ...]) -> bytes:
    """A call's arguments as msgpack. Raises TypeError for what it cannot say."""
    return msgspec.msgpack.encode(arguments)


def call_packed(function: Function, packed: bytes) -> bytes:
    """Call a function with packed arguments, as its type hints have them; its `Returned`, packed.

    A CourseError that it raises is returned as well; any other exception is raised here.
    """
    arguments = msgspec.msgpack.decode(packed, type=list[msgspec.Raw])
    try:
        value = function(*map(_unpack, arguments, _parameter_types(function, len(arguments))))
        returned = Returned(value=msgspec.Raw(msgspec.msgpack.encode(value)))
    except CourseError as error:
        returned = Returned(error=_raised(error))
    return msgspec.msgpack.encode(returned)


def unpack_returned(function: Function, packed: bytes) -> tuple[Any, CourseError | None]:
    """What a function returned, as its type hints have it, or the CourseError that it raised.

    Raises msgspec.DecodeError if the bytes are neither.
    """
    returned = msgspec.msgpack.decode(packed, type=Returned)
    if returned.error is not None:
        return None, _error(returned.error)
    return _unpack(returned.value, get_type_hints(function).get("return", Any)), None


def _parameter_types(function: Function, count: int) -> list[Any]:
    hints = get_type_hints(function)
    code = getattr(function, "__code__", None)  # built-in functions have none
    types = [hints.get(name, Any) for name in code.co_varnames[: code.co_argcount]] if code else []
    return types + [Any] * (count - len(types))  # *args


def _unpack(packed: msgspec.Raw, kind: Any) -> Any:
    return msgspec.msgpack.decode(packed, type=Any if kind is None else kind)


def _raised(error: CourseError) -> Raised:
    kind = type(error)
    try:
        msgspec.msgpack.encode(error.args)
    except TypeError:
        return Raised(CourseError.__module__, CourseError.__name__, [str(error)], error.kind)
    return Raised(kind.__module__, kind.__name__, list(error.args), error.kind)


def _error(raised: Raised) -> CourseError:
    """The error again. Nothing is imported for it: a class that is not there becomes a
    CourseError."""
    kind = getattr(sys.modules.get(raised.module), raised.name, None)
    if isinstance(kind, type) and issubclass(kind, CourseError):
        error: CourseError = kind(*raised.arguments)
        error.kind = raised.kind
        return error
    return CourseError(*map(str, raised.arguments[:1]), kind=raised.kind)
