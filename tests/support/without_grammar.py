"""Start pytest without a grammar that nobody asks for; pyproject.toml names this first of all.

nbval imports nbformat, and so jsonschema, which would compile a grammar of internet addresses: more
than two seconds in each process that runs tests. No schema of notebooks has such an address.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
