"""A learner's browser, as far as the hub can tell: logs in, has a server, runs cells."""

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode, urljoin, urlparse

from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.websocket import WebSocketClientConnection, websocket_connect

from course.errors import CourseError
from course.workshop.session import Ran

REQUEST_S = 120


@dataclass
class Learner:
    """One seat, with its cookies and its session."""

    url: str
    name: str
    code: str
    cookies: dict[tuple[str, str], str] = field(default_factory=dict)
    """(path, name) -> value."""
    kernel: str = ""
    socket: WebSocketClientConnection | None = None
    _pending: asyncio.Future[Any] | None = None
    """The wait for the next message of the socket."""

    @property
    def server(self) -> str:
        return f"{self.url}/user/{self.name}"

    async def log_in(self) -> bool:
        """Log in with the code; whether the hub let us in."""
        await self.fetch("GET", f"{self.url}/hub/login")
        form = {
            "username": self.name,
            "password": self.code,
            "_xsrf": self.cookies["/hub/", "_xsrf"],
        }
        login, body = f"{self.url}/hub/login", urlencode(form)
        answer = await self.fetch("POST", login, body, follow=False, check=False)
        return answer.code == 302

    async def open_server(self) -> float:
        """Have the server started and log in there; seconds until it answers.

        Raises CourseError where it does not come up.
        """
        begin = time.monotonic()
        await self.fetch("GET", f"{self.url}/hub/spawn")
        while time.monotonic() - begin < 3 * REQUEST_S:
            answer = await self.fetch("GET", f"{self.server}/api/status", check=False)
            if answer.code == 200:
                await self.fetch("GET", f"{self.server}/lab/tree/work/00-start-here.ipynb")
                return time.monotonic() - begin
            if answer.code in (403, 401):
                await self.fetch("GET", f"{self.server}/lab", check=False)  # logs in there
            await asyncio.sleep(0.5)
        raise CourseError(f"The server of {self.name} did not come up.")

    async def notebook(self, name: str) -> list[str]:
        """The code cells of a notebook in the work folder."""
        answer = await self.fetch("GET", f"{self.server}/api/contents/work/{name}")
        cells = json.loads(answer.body)["content"]["cells"]
        return [cell["source"] for cell in cells if cell["cell_type"] == "code"]

    async def open_session(self, name: str) -> None:
        """Start a session for a notebook, as opening it in the lab does."""
        request = {"path": f"work/{name}", "type": "notebook", "name": name,
                   "kernel": {"name": "python3"}}  # fmt: skip
        answer = await self.fetch("POST", f"{self.server}/api/sessions", json.dumps(request))
        self.kernel = json.loads(answer.body)["kernel"]["id"]
        await self._connect()

    async def reconnect(self) -> None:
        """Take up the session again after it died: the server has started a new kernel for it."""
        if self.socket is not None:
            self.socket.close()
        while True:
            answer = await self.fetch("GET", f"{self.server}/api/kernels/{self.kernel}")
            if json.loads(answer.body)["execution_state"] not in ("restarting", "dead"):
                break
            await asyncio.sleep(0.2)
        await self._connect()

    async def end_server(self) -> None:
        """Have the hub end our server, as "Stop My Server" does."""
        await self.fetch("GET", f"{self.url}/hub/home")
        address = f"{self.url}/hub/api/users/{self.name}/server"
        await self.fetch("DELETE", address)

    async def close_session(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        await self.fetch("DELETE", f"{self.server}/api/kernels/{self.kernel}")

    async def run(self, cell: str, limit_s: float, interrupt_after_s: float = 0) -> Ran:
        """Run a cell; interrupt it after so many seconds if they are given.

        Raises CourseError where it does not end within `limit_s`.
        """
        assert self.socket is not None
        ran, begin, ident = Ran(), time.monotonic(), uuid.uuid4().hex
        await self.socket.write_message(json.dumps(_request(ident, cell)))
        interrupt_at = begin + interrupt_after_s if interrupt_after_s else float("inf")
        idle = replied = False
        while ran.ended and not (idle and replied):
            now = time.monotonic()
            if now >= interrupt_at:
                await self.fetch("POST", f"{self.server}/api/kernels/{self.kernel}/interrupt", "")
                interrupt_at = float("inf")
            if now - begin > limit_s:
                raise CourseError(f"{self.name}: a cell did not end within {limit_s:.0f} s.")
            message = await self._next()
            if message is None:
                continue
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] in ("restarting", "dead"):
                ran.ended = False
            if message.get("parent_header", {}).get("msg_id") != ident:
                continue
            idle |= kind == "status" and content["execution_state"] == "idle"
            replied |= kind == "execute_reply"
            ran.note(kind, content)
        ran.seconds = time.monotonic() - begin
        return ran

    async def fetch(
        self, method: str, url: str, body: str | None = None, *, follow: bool = True,
        check: bool = True,
    ) -> HTTPResponse:  # fmt: skip
        """A request with our cookies, which keeps those that come back, as a browser does."""
        for _ in range(12):
            request = HTTPRequest(
                url, method, self._headers(url), body=body, follow_redirects=False,
                request_timeout=REQUEST_S,
            )  # fmt: skip
            try:
                answer = await AsyncHTTPClient().fetch(request, raise_error=False)
            except OSError as error:
                raise CourseError(f"{url} cannot be reached ({error}).") from error
            for line in answer.headers.get_list("Set-Cookie"):
                for name, morsel in SimpleCookie(line).items():
                    self.cookies[morsel["path"] or "/", name] = morsel.value
            if not (follow and answer.code in (302, 303)):
                break
            url, method, body = urljoin(url, answer.headers["Location"]), "GET", None
        if check and answer.code >= 400:
            raise CourseError(f"{method} {url}: {answer.code} {answer.reason}")
        return answer

    def _headers(self, url: str) -> dict[str, str]:
        """Our cookies for an address; of two of one name that of the longer path."""
        path = urlparse(url).path
        sent = {
            name: value
            for (below, name), value in sorted(self.cookies.items(), key=lambda item: item[0])
            if path.startswith(below.rstrip("/"))
        }
        cookies = "; ".join(f"{name}={value}" for name, value in sent.items())
        return {"Cookie": cookies, "X-XSRFToken": sent.get("_xsrf", "")}

    async def _connect(self) -> None:
        address = f"{self.server}/api/kernels/{self.kernel}/channels?session_id={uuid.uuid4().hex}"
        request = HTTPRequest(
            address.replace("http", "ws", 1), headers=self._headers(address),
            connect_timeout=REQUEST_S, request_timeout=REQUEST_S,
        )  # fmt: skip
        self.socket = await websocket_connect(request, max_message_size=2**30)
        self._pending = None

    async def _next(self) -> dict[str, Any] | None:
        """The next message; None if none comes within a second.

        Raises CourseError where the server has closed the connection.
        """
        assert self.socket is not None
        if self._pending is None:
            self._pending = asyncio.ensure_future(self.socket.read_message())
        done, _ = await asyncio.wait({self._pending}, timeout=1)
        if not done:
            return None  # the same wait goes on with the next call
        text, self._pending = self._pending.result(), None
        if text is None:
            raise CourseError(f"{self.name}: its server closed the connection.")
        message: dict[str, Any] = json.loads(text)
        return message


def _request(ident: str, code: str) -> dict[str, Any]:
    header = {"msg_id": ident, "msg_type": "execute_request", "username": "", "session": ident,
              "date": "", "version": "5.3"}  # fmt: skip
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {},
               "allow_stdin": False, "stop_on_error": False}  # fmt: skip
    return {"header": header, "parent_header": {}, "metadata": {}, "content": content,
            "channel": "shell", "buffers": []}  # fmt: skip
