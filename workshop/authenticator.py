"""Who may log in: each seat, and the leader, with a code of its own."""

import asyncio
import hmac
import os
from pathlib import Path
from typing import Any

from jupyterhub.auth import Authenticator

from .settings import VARIABLE, codes, read

WRONG_S = 1
"""How long a wrong code is made to wait."""


class CodeAuthenticator(Authenticator):
    """A seat's name and its code."""

    async def authenticate(self, handler: Any, data: dict[str, str]) -> str | None:
        known = codes(read(Path(os.environ[VARIABLE])))
        name = data["username"].strip().lower()
        name = f"seat-{int(name):02}" if name.isdigit() else name
        code = data["password"].strip().lower().replace(" ", "")
        # A name that is not there takes as long as a code that is wrong.
        if hmac.compare_digest(code.encode(), known.get(name, "none").encode()) and name in known:
            return name
        await asyncio.sleep(WRONG_S)
        return None
