"""Names that annotations of Gluon mention."""


class GluonOpBuilder:
    """Builds nothing."""
