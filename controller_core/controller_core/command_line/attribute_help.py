"""Help texts of options from the dataclass of the settings: one text for code and `--help`.

Never here: a parser. A class without the section `Attributes:` in its docstring has no texts.
"""

import inspect
import re
from typing import Final

_SECTION: Final = "Attributes:\n"
_ENTRY: Final = re.compile(r"^    (\w+): (.*(?:\n {6,}.*)*)", re.MULTILINE)


def attribute_help(settings: type) -> dict[str, str]:
    """Return the text of each attribute that the class's docstring describes, on one line.

    Per cent signs are doubled, as argparse reads them.
    """
    _, _, section = (inspect.getdoc(settings) or "").partition(_SECTION)
    return {name: " ".join(text.split()).replace("%", "%%") for name, text in _ENTRY.findall(section)}
