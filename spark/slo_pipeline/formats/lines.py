"""Bytes in any pieces to whole lines, with a bound on a line.

Pure. A peer that never ends a line would fill memory; a line beyond the bound is dropped whole and counted.
"""

LINE_BYTES_MAX = 262_144


class LineSplitter:
    """Cuts a stream of bytes into lines.

    Attributes:
        dropped: lines that were too long.
        consumed_bytes: bytes up to the end of the last whole line, dropped ones included.
    """

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        # In pieces, joined when the line ends: a long line in small pieces is not copied again with each.
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._overlong_bytes = 0
        self.dropped = 0
        self.consumed_bytes = 0

    def feed(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return each line that is whole now, with the value of `consumed_bytes` after it.

        Empty lines are left out.
        """
        *whole, rest = data.split(b"\n")
        lines: list[tuple[bytes, int]] = []
        for line in whole:
            if self._rest:
                line = b"".join([*self._rest, line])
                self._rest, self._rest_bytes = [], 0
            self.consumed_bytes += self._overlong_bytes + len(line) + 1
            if self._overlong_bytes or len(line) > self._line_bytes_max:
                self.dropped += 1
            elif line.strip():
                lines.append((line, self.consumed_bytes))
            self._overlong_bytes = 0
        if rest:
            self._rest.append(rest)
            self._rest_bytes += len(rest)
        if self._rest_bytes > self._line_bytes_max:
            self._overlong_bytes += self._rest_bytes
            self._rest, self._rest_bytes = [], 0
        return lines
