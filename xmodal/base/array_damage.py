"""What NumPy raises when bytes of an npy or npz file are damaged or missing."""

import tokenize
import zipfile
import zlib

# RuntimeError: a flag of the archive; TokenError: a header; MemoryError: a shape in it.
DAMAGE = (
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
