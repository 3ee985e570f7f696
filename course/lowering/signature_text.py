"""The text of a signature, cut into its parts."""


def split_signature(text: str) -> list[str]:
    """The parts between commas that stand in no brackets: "tensordesc<fp16[64, 64]>, 1" has two."""
    parts, depth = [""], 0
    for character in text:
        depth += {"[": 1, "(": 1, "<": 1, "]": -1, ")": -1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
