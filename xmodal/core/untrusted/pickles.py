"""The only unpickler: it loads data and runs nothing that a pickle names.

A pickle is a program that may call anything that it can name. Here it can name only the caller's
list and classes that do nothing. It is Python's own unpickler in Python, since the one in C
reserves memory for any number that a file claims, and hashes nested keys until it crashes.
"""

import collections
import io
import math
import pickle
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

# Errors that damaged or foreign pickles raise, depending on their bytes.
ERRORS = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
_InPython: Any = pickle._Unpickler  # type: ignore[attr-defined]
_SCALARS = (str, bytes, int, float, bool, type(None))


class Inert:
    """An object of a class that is not loaded: its state, without its behavior.

    Attributes:
      kind: the class, `MODULE.NAME`.
      state: the pickled state; a dict of attributes for most classes.
      contents: items of a subclass of list or dict, without their keys.
    """

    kind: str = ""
    state: Any = None
    contents: Sequence[Any] = ()

    def __init__(self, *args: object, **keywords: object) -> None:
        """Ignores the arguments, since no call is made."""

    def append(self, item: object) -> None:
        """Keeps an item of a subclass of list."""
        self.extend([item])

    def extend(self, items: Iterable[object]) -> None:
        """Keeps items of a subclass of list."""
        self.__dict__.setdefault("contents", []).extend(items)

    def __setitem__(self, key: object, value: object) -> None:
        """Keeps an item of a subclass of dict."""
        self.append(value)


class StandIn:
    """An object that a pickle describes, made only after the pickle has ended."""

    state: Any = None

    def value(self) -> Any:
        """Returns the object."""
        raise NotImplementedError


class KnownFunction:
    """A function that a pickle may call; unlike a function, it has nothing that can be set."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        """Calls the function."""
        return self._function(*args)


class Unpickler(_InPython):
    """Loads containers, numbers and strings; everything else becomes an `Inert` object."""

    dispatch: ClassVar = dict(_InPython.dispatch)

    def __init__(
        self,
        file: io.BytesIO,
        known: Mapping[tuple[str, str], Any] | None = None,
        find_persistent: Callable[[Any], Any] | None = None,
        encoding: str = "utf-8",
    ) -> None:
        """Makes an unpickler.

        Args:
          file: whole content, so that no read reserves more than there is.
          known: (module, name) -> the `KnownFunction` or the constant that replaces it.
          find_persistent: id of an object stored outside the pickle -> the object.
          encoding: of the strings of Python 2; "bytes" keeps them.
        """
        super().__init__(file, encoding=encoding, errors="replace")
        self._left = file.getbuffer().nbytes
        self._known = {
            ("collections", "OrderedDict"): KnownFunction(self._ordered),
            ("collections", "defaultdict"): KnownFunction(lambda *_: {}),
            **(known or {}),
        }
        self._find_persistent = find_persistent

    def find_class(self, module: str, name: str) -> Any:
        """Returns the replacement for a global name."""
        if (module, name) in self._known:
            return self._known[module, name]
        # A class of its own, which the file cannot use to affect others.
        return type("Inert", (Inert,), {"kind": f"{module}.{name}"})

    def spend(self, count: int) -> None:
        """Counts entries or bytes that a call copies; all of them together are in the file.

        Raises:
          pickle.UnpicklingError: calls copy the same ones again and again.
        """
        self._left -= count
        if self._left < 0:
            raise pickle.UnpicklingError("it copies more than it holds")

    def _ordered(self, pairs: Collection[Any] = ()) -> collections.OrderedDict:
        self.spend(len(pairs))
        return collections.OrderedDict((_checked(key), value) for key, value in pairs)

    def persistent_load(self, pid: Any) -> Any:
        """Returns an object stored outside the pickle."""
        if self._find_persistent is None:
            raise pickle.UnpicklingError("it refers to objects that it does not hold")
        return self._find_persistent(pid)

    def load_build(self) -> None:
        """Gives a state to an object that only its reader interprets, and to no other."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, (Inert, StandIn)):
            target.state = state
        elif not isinstance(target, dict):
            raise pickle.UnpicklingError(f"it sets the state of a {type(target).__name__}")

    def load_bytearray8(self) -> None:
        """Reads bytes before making room for them."""
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    def load_setitem(self) -> None:
        """Adds an entry to a dict."""
        value, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][_checked(key)] = value

    def load_setitems(self) -> None:
        """Adds entries to a dict."""
        items = self.pop_mark()
        target = self.stack[-1]
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[_checked(key)] = value

    def load_dict(self) -> None:
        """Makes a dict."""
        items = self.pop_mark()
        pairs = zip(items[::2], items[1::2], strict=True)
        self.append({_checked(key): value for key, value in pairs})

    def load_additems(self) -> None:
        """Adds elements to a set."""
        items = self.pop_mark()
        self.stack[-1].update(map(_checked, items))

    def load_frozenset(self) -> None:
        """Makes a set."""
        items = self.pop_mark()  # Also restores `self.append`.
        self.append(frozenset(map(_checked, items)))


Unpickler.dispatch |= {
    opcode[0]: getattr(Unpickler, f"load_{name}")
    for opcode, name in (
        (pickle.BUILD, "build"),
        (pickle.BYTEARRAY8, "bytearray8"),
        (pickle.SETITEM, "setitem"),
        (pickle.SETITEMS, "setitems"),
        (pickle.DICT, "dict"),
        (pickle.ADDITEMS, "additems"),
        (pickle.FROZENSET, "frozenset"),
    )
}


def _checked(key: Any) -> Any:
    """Returns a key whose hash is cheap: that of nested tuples may take forever, or crash."""
    parts = key if isinstance(key, tuple) else (key,)
    if not all(isinstance(part, (*_SCALARS, StandIn)) for part in parts):
        raise pickle.UnpicklingError(f"a key contains a {type(key).__name__}")
    return key


class Resolver:
    """Replaces stand-ins by their objects, now that the pickle has ended.

    Args:
      most: bytes that all its arrays may have.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._left = most
        # The objects themselves keep the numbers from being given to others.
        self._done: dict[int, tuple[Any, Any]] = {}
        self._open: set[int] = set()

    def resolve(self, value: Any) -> Any:
        """Returns a copy with the objects; shared objects stay shared.

        Raises:
          Exception: one of `ERRORS`; an object is damaged, or a container is in itself.
        """
        if not isinstance(value, (Mapping, list, tuple, StandIn)):
            return value
        if id(value) in self._open:
            raise ValueError("a container is in itself")
        if id(value) not in self._done:
            self._open.add(id(value))
            self._done[id(value)] = value, self._copy(value)
            self._open.remove(id(value))
        return self._done[id(value)][1]

    def _copy(self, value: Any) -> Any:
        if isinstance(value, StandIn):
            found = value.value()
            self._left -= getattr(found, "nbytes", 0)
            if self._left < 0:
                raise ValueError("its arrays have more bytes than the file")
            return self.resolve(found)
        if isinstance(value, Mapping):
            return {self.resolve(key): self.resolve(item) for key, item in value.items()}
        items = [self.resolve(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
