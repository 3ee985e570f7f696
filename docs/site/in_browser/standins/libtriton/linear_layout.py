"""Names that annotations mention."""


class LinearLayout:
    """Lays out nothing."""
