"""File names made of the names that a cluster gave: short, ASCII, and different for different names.

Problem: a group may be called anything, and a file name has at most 255 bytes and should survive every file
system. Shape: a name of ASCII letters, digits, `_` and `-` stays as it is; any other name loses what it
cannot keep and gets a part of its SHA-256 instead.
"""

import hashlib
from typing import Final

STEM_CHARACTERS_MAX: Final = 150
NAME_BYTES_MAX: Final = 255
HASH_CHARACTERS: Final = 12


def stem(prefix: str, identity: str) -> str:
    """Return a file name without its suffix, also usable as an HTML id.

    Args:
        prefix: what kind of thing it is.
        identity: the parts of its name, joined by `/`. A dot joins them in the result, as a dot itself is
            replaced.
    """
    kept = "".join(one if one.isascii() and (one.isalnum() or one in "_-/") else "-" for one in identity)
    if kept != identity or len(kept) > STEM_CHARACTERS_MAX:
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
        kept = f"{kept[:STEM_CHARACTERS_MAX]}-{digest[:HASH_CHARACTERS]}"
    return f"{prefix}-{kept.replace('/', '.')}"


def is_segment(name: str) -> bool:
    """Tell whether a name is one visible segment of a path.

    It must be printable, without separator or leading dot, at most 255 bytes.
    """
    if not name or name.startswith(".") or not name.isprintable() or "/" in name or "\\" in name:
        return False
    return len(name.encode()) <= NAME_BYTES_MAX
