"""An object store on loopback: moto's S3, behind a proxy that counts bytes and causes faults."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from moto.server import ThreadedMotoServer

LOOPBACK = "127.0.0.1"
REFUSE, CUT = "refuse", "cut"


@dataclass
class ObjectStore:
    """The store's address, what it was asked for, and the faults that its next answers have.

    faults: (method, kind) for the next requests of objects by this method; "refuse" answers 403,
    "cut" sends half of an answer and hangs up.
    """

    address: str
    requests: list[tuple[str, str, int]] = field(default_factory=list)  # method, path, bytes sent
    faults: list[tuple[str, str]] = field(default_factory=list)

    def fetched(self) -> int:
        """Return how many bytes of objects, not of listings, were sent since the last call."""
        count = sum(
            size for method, path, size in self.requests if method == "GET" and "?" not in path
        )
        self.requests.clear()
        return count

    def next_fault(self, method: str, path: str) -> str | None:
        if self.faults and self.faults[0][0] == method and "?" not in path:
            return self.faults.pop(0)[1]
        return None


@contextmanager
def run_object_store() -> Iterator[ObjectStore]:
    """Start the store and the proxy; both end with the block."""
    moto = ThreadedMotoServer(ip_address=LOOPBACK, port=0, verbose=False)
    moto.start()
    proxy = ThreadingHTTPServer((LOOPBACK, 0), _Proxy)
    proxy.daemon_threads = True
    store = ObjectStore(f"http://{LOOPBACK}:{proxy.server_port}")
    _Proxy.store, _Proxy.behind = store, moto.get_host_and_port()
    thread = Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
        moto.stop()


class _Proxy(BaseHTTPRequestHandler):
    """Passes each request on, one to a connection."""

    protocol_version = "HTTP/1.1"  # clients wait for "100 Continue" before they send an object
    timeout = 30
    store: ObjectStore
    behind: tuple[str, int]

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.store.next_fault(self.command, self.path)
        if fault == REFUSE:
            self.send_error(403)
            return
        connection = http.client.HTTPConnection(*self.behind, timeout=30)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() != "expect"}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        part = content[: len(content) // 2] if fault == CUT else content
        # Noted before it is sent: whoever has the answer may ask at once what was fetched.
        self.store.requests.append((self.command, self.path, len(part)))
        self.wfile.write(part)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Stay quiet."""
