"""Text with brackets, cut into its parts."""


def split_outside_brackets(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand in no brackets. It ends where a bracket
    closes that the text does not open."""
    parts: list[str] = []
    begin, depth = 0, 0
    for place, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>")
        if depth < 0:
            return [*parts, text[begin:place]]
        if depth == 0 and text.startswith(separator, place):
            parts.append(text[begin:place])
            begin = place + len(separator)
    return [*parts, text[begin:]]


def split_signature(text: str) -> list[str]:
    """The types of a signature: "tensordesc<fp16[64, 64]>, 1" has two."""
    return [part.strip() for part in split_outside_brackets(text, ",") if part.strip()]
