"""A stand-in for traitlets, of which a widget's state is declared; a page's is what it is."""


class Dict:
    """A dict."""

    def tag(self, **_: object) -> dict[str, object]:
        """It is not synchronized: no session stands behind a page."""
        return {}
