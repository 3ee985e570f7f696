"""Who may log in: each seat, and the leader, with a code of its own."""

import asyncio
import hmac
import os
import time
from pathlib import Path
from typing import Any

from jupyterhub.auth import Authenticator
from tornado.web import HTTPError

from .codes import codes
from .settings import VARIABLE, read, seat_name

WRONG_S = 1
"""How long a wrong code is made to wait."""
FREE = 5
"""So many wrong codes for one seat, from one address, wait for WRONG_S only."""
SLOW_S = 30
FORGOTTEN_S = 600
"""After so long without a wrong code nothing is held against an address."""
MOST_KNOWN = 10_000
TOO_MANY = (
    "{} wrong codes for this seat came from your address, so each further one waits for {} s."
    " The right one is let in at once: it stands on the slip, and who leads the room can give the"
    " seat a new one."
)


class CodeAuthenticator(Authenticator):
    """A seat's name and its code. The right code is let in always: wrong ones, of which somebody
    else in the same network may send any number, only make other wrong ones wait."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.wrong: dict[tuple[str, str], tuple[int, float]] = {}
        """Seat and address -> how many wrong codes, and when the last one came."""

    async def authenticate(self, handler: Any, data: dict[str, str] | None) -> str | None:
        if data is None:  # no form was sent: a request of the hub's interface for programs
            return None
        known = codes(read(Path(os.environ[VARIABLE])))
        # The page for a wrong code shows the name, also where a request came without any.
        name = seat_name(data.setdefault("username", ""))
        code = data.get("password", "").strip().lower().replace(" ", "")
        where = (name if name in known else "", address(handler))
        # A name that is not there takes as long as a code that is wrong.
        if hmac.compare_digest(code.encode(), known.get(name, "none").encode()) and name in known:
            self.wrong.pop(where, None)
            return name
        count = self._count(where)
        await asyncio.sleep(WRONG_S if count <= FREE else SLOW_S)
        if count > FREE:
            raise HTTPError(429, TOO_MANY.format(count, SLOW_S))
        return None

    def _count(self, where: tuple[str, str]) -> int:
        """How many wrong codes came for a seat from an address, with this one."""
        now = time.monotonic()
        count, last = self.wrong.get(where, (0, now))
        count = 1 if now - last > FORGOTTEN_S else count + 1
        if len(self.wrong) >= MOST_KNOWN:
            self.wrong.clear()
        self.wrong[where] = (count, now)
        if count == FREE + 1:
            self.log.warning("%d wrong codes for %s from %s", count, *where)
        return count


def address(handler: Any) -> str:
    """Whom a request comes from: as the proxy says, and only the proxy is believed. A seat asks the
    hub directly, and could name any address."""
    peer: str = handler.request.connection.context.address[0]
    told: str = handler.request.remote_ip
    return told if peer == "127.0.0.1" else peer
