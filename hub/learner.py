"""A learner's browser, as far as the hub can tell: logs in, has a server, runs cells."""

import asyncio
import json
import math
import re
import ssl
import time
import uuid
from typing import Any
from urllib.parse import urlencode

import httpx
from jupyter_client.session import Session as Messages
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from course.errors import CourseError

from .session import Ran

REQUEST_S = 120


class Learner:
    """One seat, with its cookies and its session."""

    kernel = ""
    socket: WebSocketClientConnection | None = None

    def __init__(self, url: str, name: str, code: str) -> None:
        self.url, self.name, self.code = url, name, code
        self.server = f"{url}/user/{name}"
        # The system's certificates, and no proxy: the room is on this host or in its network.
        self.browser = httpx.AsyncClient(
            timeout=REQUEST_S, trust_env=False, verify=ssl.create_default_context()
        )

    async def log_in(self) -> bool:
        """Log in with the code; whether the hub let us in."""
        login = f"{self.url}/hub/login"
        await self.fetch("GET", login)
        form = {"username": self.name, "password": self.code, "_xsrf": self._token(login)}
        answer = await self.fetch("POST", login, urlencode(form), follow=False, check=False)
        return answer.status_code == 302

    async def open_server(self) -> float:
        """Have the server started and log in there; seconds until it answers.

        Raises CourseError where it does not come up.
        """
        begin = time.monotonic()
        await self.fetch("GET", f"{self.url}/hub/spawn")
        while time.monotonic() - begin < 3 * REQUEST_S:
            answer = await self.fetch("GET", f"{self.server}/api/status", check=False)
            if answer.status_code == 200:
                await self.fetch("GET", f"{self.server}/lab/tree/work/00-your-first-kernel.ipynb")
                return time.monotonic() - begin
            if answer.status_code in (403, 401):
                await self.fetch("GET", f"{self.server}/lab", check=False)  # logs in there
            await asyncio.sleep(0.5)
        raise CourseError(f"The server of {self.name} did not come up.")

    async def notebook(self, name: str) -> list[str]:
        """The code cells of a notebook in the work folder."""
        answer = await self.fetch("GET", f"{self.server}/api/contents/work/{name}")
        cells = answer.json()["content"]["cells"]
        return [cell["source"] for cell in cells if cell["cell_type"] == "code"]

    async def open_session(self, name: str) -> None:
        """Start a session for a notebook, as opening it in the lab does."""
        request = {"path": f"work/{name}", "type": "notebook", "name": name,
                   "kernel": {"name": "python3"}}  # fmt: skip
        answer = await self.fetch("POST", f"{self.server}/api/sessions", json.dumps(request))
        self.kernel = answer.json()["kernel"]["id"]
        await self._connect()

    async def reconnect(self) -> None:
        """Take up the session again after it died: the server has started a new kernel for it."""
        if self.socket is not None:
            self.socket.close()
        while True:
            answer = await self.fetch("GET", f"{self.server}/api/kernels/{self.kernel}")
            if answer.json()["execution_state"] not in ("restarting", "dead"):
                break
            await asyncio.sleep(0.2)
        await self._connect()

    async def end_server(self) -> None:
        """Have the hub end our server, as "Stop My Server" does."""
        await self.fetch("GET", f"{self.url}/hub/home")
        address = f"{self.url}/hub/api/users/{self.name}/server"
        await self.fetch("DELETE", address)

    async def run(self, cell: str, limit_s: float, interrupt_after_s: float = math.inf) -> Ran:
        """Run a cell; interrupt it after so many seconds if they are given.

        Raises CourseError where it does not end within `limit_s`.
        """
        assert self.socket is not None
        ran, begin = Ran(), time.monotonic()
        content = {"code": cell, "silent": False, "stop_on_error": False}
        request = {**Messages().msg("execute_request", content), "channel": "shell", "buffers": []}
        await self.socket.write_message(json.dumps(request, default=str))
        interrupting = asyncio.ensure_future(self._interrupt(interrupt_after_s))
        try:
            async with asyncio.timeout(limit_s):
                await self._listen(ran, request["msg_id"])
        except TimeoutError as error:
            raise CourseError(f"{self.name}: a cell did not end within {limit_s:.0f} s.") from error
        finally:
            interrupting.cancel()
        ran.seconds = time.monotonic() - begin
        return ran

    async def _interrupt(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self.fetch("POST", f"{self.server}/api/kernels/{self.kernel}/interrupt", "")

    async def _listen(self, ran: Ran, request: str) -> None:
        """Note what the session says of a request, until it has ended.

        Raises CourseError where the server has closed the connection.
        """
        assert self.socket is not None
        idle = replied = False
        while ran.ended and not (idle and replied):
            text = await self.socket.read_message()
            if text is None:
                raise CourseError(f"{self.name}: its server closed the connection.")
            message: dict[str, Any] = json.loads(text)
            kind, content = message["header"]["msg_type"], message["content"]
            state = content["execution_state"] if kind == "status" else ""
            ran.ended = state not in ("restarting", "dead")
            if message.get("parent_header", {}).get("msg_id") == request:
                idle |= state == "idle"
                replied |= kind == "execute_reply"
                ran.note(kind, content)

    async def fetch(
        self, method: str, url: str, body: str | None = None, *, follow: bool = True,
        check: bool = True,
    ) -> httpx.Response:  # fmt: skip
        """A request with our cookies, which keeps those that come back, as a browser does."""
        headers = {"X-XSRFToken": self._token(url)}
        if method == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        request = self.browser.build_request(method, url, content=body, headers=headers)
        try:
            answer = await self.browser.send(request, follow_redirects=follow)
        except httpx.HTTPError as error:
            raise CourseError(f"{url} cannot be reached ({error}).") from error
        if check and answer.status_code >= 400:
            raise CourseError(f"{method} {url}: {answer.status_code} {answer.reason_phrase}")
        return answer

    def _cookies(self, url: str) -> str:
        """The cookies for an address, those of the longest path first."""
        cookies: str = self.browser.build_request("GET", url).headers.get("Cookie", "")
        return cookies

    def _token(self, url: str) -> str:
        """The token that the hub and the servers want to be given back with each request."""
        token = re.search(r"_xsrf=([^;]*)", self._cookies(url))
        return token[1] if token else ""

    async def _connect(self) -> None:
        address = f"{self.server}/api/kernels/{self.kernel}/channels?session_id={uuid.uuid4().hex}"
        headers = {"Cookie": self._cookies(address), "X-XSRFToken": self._token(address)}
        request = HTTPRequest(
            address.replace("http", "ws", 1), headers=headers,
            connect_timeout=REQUEST_S, request_timeout=REQUEST_S,
        )  # fmt: skip
        self.socket = await websocket_connect(request, max_message_size=2**30)
