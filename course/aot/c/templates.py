"""The C99 of exported functions: Jinja's templates, the files beside this one, and helpers."""

from pathlib import Path

import jinja2

_CHECKED = """\
static int64_t grid_{name}(int64_t a, int64_t b, int *bad) {{
    int64_t result = 0;
    *bad |= __builtin_{builtin}_overflow(a, b, &result);
    return result;
}}
"""
_DIVIDED = """\
static int64_t grid_{name}(int64_t a, int64_t b, int *bad) {{
    if ({bad}) {{ *bad = 1; return 0; }}
    return {result};
}}
"""
_NO_QUOTIENT = "b == 0 || (a == INT64_MIN && b == -1)"

GRID = {
    "grid_add": _CHECKED.format(name="add", builtin="add"),
    "grid_subtract": _CHECKED.format(name="subtract", builtin="sub"),
    "grid_multiply": _CHECKED.format(name="multiply", builtin="mul"),
    "grid_divide": _DIVIDED.format(name="divide", bad=_NO_QUOTIENT, result="a / b"),
    "grid_modulo": _DIVIDED.format(name="modulo", bad=_NO_QUOTIENT, result="a % b"),
    "grid_cdiv": _DIVIDED.format(name="cdiv", bad="a < 0 || b <= 0", result="a / b + (a % b != 0)"),
    "grid_unsigned": """\
static int64_t grid_unsigned(uint64_t a, int *bad) {
    *bad |= a > (uint64_t)INT64_MAX;
    return (int64_t)(a & INT64_MAX);
}
""",
}
"""The arithmetic of grids: in 64 bits, and a step without a result sets *bad."""

BITS = {
    "fp16": """\
/* The bits of the half-precision number nearest to `number`; of the even one of two. */
static uint16_t fp16_bits(float number) {
    uint32_t bits, magnitude;
    uint16_t sign;
    memcpy(&bits, &number, sizeof bits);
    sign = (uint16_t)(bits >> 16 & 0x8000);
    magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65,520 and more: infinity */
    if (magnitude < 0x38800000) { /* below 2^-14: multiples of 2^-24, to which 0.5 + x is rounded */
        number = 0.5f + (sign ? -number : number);
        memcpy(&bits, &number, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    /* An exponent that begins at 127 - 15, and 13 bits fewer: may carry into it, as it should. */
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
}
""",
    "bf16": """\
/* The bits of the bfloat16 number nearest to `number`; of the even one of two. */
static uint16_t bf16_bits(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
""",
}
"""argument type -> C function that converts a float to its bits."""


def comment(text: str) -> str:
    """A text for a comment in C, in ASCII: names may have letters of any alphabet."""
    return text.encode("ascii", "backslashreplace").decode()


TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters["comment"] = comment


def filled(template: str, **values: object) -> str:
    """The C that a template makes of these values. template: its file's name."""
    return TEMPLATES.get_template(template).render(values)
