"""Who may log in: each seat, and the leader, with a code of its own."""

import asyncio
import hmac
import os
from pathlib import Path
from typing import Any

from jupyterhub.auth import Authenticator

from .settings import VARIABLE, codes, read, seat_name

WRONG_S = 1
"""How long a wrong code is made to wait."""


class CodeAuthenticator(Authenticator):
    """A seat's name and its code."""

    async def authenticate(self, handler: Any, data: dict[str, str]) -> str | None:
        known = codes(read(Path(os.environ[VARIABLE])))
        name = seat_name(data["username"])
        code = data["password"].strip().lower().replace(" ", "")
        # A name that is not there takes as long as a code that is wrong.
        if hmac.compare_digest(code.encode(), known.get(name, "none").encode()) and name in known:
            return name
        await asyncio.sleep(WRONG_S)
        return None
