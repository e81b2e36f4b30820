"""Java properties text: the file form and the remoting form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.server.settings.properties import PropertiesError, parse, write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a=1", {"a": "1"}, id="equals"),
        pytest.param("a: 1", {"a": "1"}, id="colon"),
        pytest.param("a 1", {"a": "1"}, id="white space"),
        pytest.param("  a\t=  1 ", {"a": "1 "}, id="white space around the separator only"),
        pytest.param("# a=1\n! b=2\n\n", {}, id="comments and empty lines"),
        pytest.param("a=1\\\n   2\nb=3", {"a": "12", "b": "3"}, id="continued line"),
        pytest.param("a=1\\\\\nb=3", {"a": "1\\", "b": "3"}, id="an escaped backslash does not continue"),
        pytest.param("a\\=b=c", {"a=b": "c"}, id="escaped separator in the key"),
        pytest.param("a=\\u0041\\tb", {"a": "A\tb"}, id="escapes"),
        pytest.param("a=1\na=2", {"a": "2"}, id="the last value wins"),
        pytest.param("a", {"a": ""}, id="key alone"),
        pytest.param("a=b=c", {"a": "b=c"}, id="later separators belong to the value"),
        pytest.param("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}, id="line ends of Windows"),
    ],
)
def test_a_properties_text_means_what_java_reads(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


def test_a_broken_unicode_escape_names_its_line() -> None:
    with pytest.raises(PropertiesError, match="line 2"):
        parse("a=1\nb=\\u12")


_word = st.text(alphabet="abcXYZ0123456789.-_;", min_size=1, max_size=20)


@given(st.dictionaries(_word, _word))
def test_what_is_written_is_read_back_sorted(values: dict[str, str]) -> None:
    text = write(values)
    assert parse(text) == values
    assert text.splitlines() == sorted(text.splitlines(), key=lambda line: line.partition("=")[0])
