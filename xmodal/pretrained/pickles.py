"""Pickled files, read without running any code that they name."""

import collections
import io
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from xmodal.base.config import UserError

# Errors that damaged or foreign pickles raise, depending on their bytes.
ERRORS = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    RecursionError,
)


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

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, item: object) -> None:
        """Keeps an item of a subclass of list."""
        self.extend([item])

    def extend(self, items: Iterable[object]) -> None:
        """Keeps items of a subclass of list."""
        self.__dict__.setdefault("contents", []).extend(items)

    def __setitem__(self, key: object, value: object) -> None:
        """Keeps an item of a subclass of dict."""
        self.append(value)


class Unpickler(pickle.Unpickler):
    """Loads containers, numbers and strings; everything else becomes an `Inert` object.

    A pickle is a program that may call anything that it can name. Here it can only name what the
    caller lists, and a class that does nothing.
    """

    def __init__(
        self,
        file: BinaryIO,
        known: Mapping[tuple[str, str], Callable[..., Any]] | None = None,
        find_persistent: Callable[[Any], Any] | None = None,
    ) -> None:
        """Makes an unpickler of one file.

        Args:
          file: open for reading bytes.
          known: (module, name) -> the function or class that replaces it.
          find_persistent: id of an object stored outside the pickle -> the object.
        """
        # Files written by Python 2 store strings as bytes.
        super().__init__(file, encoding="utf-8", errors="replace")
        self._known = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("collections", "defaultdict"): lambda *_: {},
            **(known or {}),
        }
        self._find_persistent = find_persistent

    def find_class(self, module: str, name: str) -> Any:
        """Returns the replacement for a global name."""
        if (module, name) in self._known:
            return self._known[module, name]
        # A class of its own, which the file cannot use to affect others.
        return type("Inert", (Inert,), {"kind": f"{module}.{name}"})

    def persistent_load(self, pid: Any) -> Any:
        """Returns an object stored outside the pickle."""
        if self._find_persistent is None:
            raise pickle.UnpicklingError("it refers to objects that it does not hold")
        return self._find_persistent(pid)


def read_pickle(path: str, content: bytes) -> Any:
    """Returns the object that a pickled file holds.

    Args:
      path: path of the file, for errors.
      content: content of the file.

    Raises:
      UserError: it is not a pickle, or damaged.
    """
    try:
        return Unpickler(io.BytesIO(content)).load()
    except ERRORS as error:
        raise UserError(
            f"{path} cannot be read as a pickle ({error}): download it again."
        ) from error
