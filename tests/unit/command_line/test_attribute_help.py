"""Help texts of options come from the docstring of the dataclass that holds the settings."""

from controller_core.command_line.attribute_help import attribute_help


class _Settings:
    """Settings of an example.

    Attributes:
        listen: where it listens.
        share_percent: at most 100 % of the disk; a text that is
            continued on the next line.

    Not an attribute: this.
    """


def test_each_attribute_has_its_text_on_one_line() -> None:
    assert attribute_help(_Settings) == {
        "listen": "where it listens.",
        "share_percent": "at most 100 %% of the disk; a text that is continued on the next line.",
    }


def test_a_class_without_the_section_has_no_texts() -> None:
    assert attribute_help(int) == {}
