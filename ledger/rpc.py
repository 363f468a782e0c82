"""JSON-RPC over HTTP, blocking, safe to share between threads (one kept-alive connection a thread).

Decides how transport faults are named. Refuses to retry, except once where a kept connection turned out to be closed,
and to read answers above `MAX_ANSWER_BYTES`. The standard library instead of web3's provider: importing web3 took
2.7 s a process (measured, 2 shared cores), and every node process imports this.
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

from ledger.errors import ChainUnavailable, RpcError

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_BATCH = 100


class Rpc:
    """One endpoint. `call` raises `ChainUnavailable` (transport) or `RpcError` (the endpoint's own error)."""

    def __init__(self, url: str, timeout_s: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ChainUnavailable(url, "not an http(s) URL")
        self.url = url
        self._timeout_s = timeout_s
        self._connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._local = threading.local()
        self._ids = itertools.count(1)

    def call(self, method: str, *params: object) -> object:
        """The `result` of one request."""
        return self._result(method, self._ask(self._request(method, params)))

    def call_many(self, method: str, *params_of_each: Sequence[object]) -> list[object]:
        """The results of many requests for one method, asked together; the first error among them is raised."""
        return self.call_together(*((method, *params) for params in params_of_each))

    def call_together(self, *calls: Sequence[object]) -> list[object]:
        """The results of calls, each (method, *params), of which up to MAX_BATCH reach the same node of a balanced
        endpoint at the same moment; the first error among them is raised.
        """
        results: list[object] = []
        for start in range(0, len(calls), MAX_BATCH):
            requests = [self._request(str(method), params) for method, *params in calls[start : start + MAX_BATCH]]
            answers = self._ask(requests)
            if not isinstance(answers, list):
                self._result(str(requests[0]["method"]), answers)  # an error that concerns them all
                raise ChainUnavailable(self.url, "answer is not a JSON-RPC batch")
            by_id = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
            results += [self._result(str(request["method"]), by_id.get(request["id"])) for request in requests]
        return results

    def _request(self, method: str, params: Sequence[object]) -> dict[str, object]:
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}

    def _ask(self, request: object) -> object:
        body = self._exchange(json.dumps(request).encode())
        try:
            return json.loads(body)
        except ValueError as error:
            raise ChainUnavailable(self.url, f"answer is not JSON: {error}") from error

    def _result(self, method: str, answer: object) -> object:
        if not isinstance(answer, dict) or ("result" not in answer and not isinstance(answer.get("error"), dict)):
            raise ChainUnavailable(self.url, "answer is not JSON-RPC")
        if isinstance(fault := answer.get("error"), dict):
            data = fault.get("data")
            is_hex = isinstance(data, str) and re.fullmatch("0x([0-9a-fA-F]{2})*", data)
            raise RpcError(method, str(fault.get("message")), bytes.fromhex(data[2:]) if is_hex else None)
        return answer["result"]

    def _exchange(self, body: bytes) -> bytes:
        connection = getattr(self._local, "connection", None)
        kept = connection is not None
        while True:
            if connection is None:
                connection = self._connect(self._host, self._port, timeout=self._timeout_s)
            try:
                content = self._post(connection, body)
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                connection = self._local.connection = None
                if not kept or not isinstance(error, http.client.HTTPException | ConnectionError):
                    cause = f"{type(error).__name__}: {error}"
                    cause = cause if self._target == "/" else cause.replace(self._target, "…")
                    raise ChainUnavailable(self.url, cause) from error
                kept = False
            else:
                self._local.connection = connection
                return content

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> bytes:
        connection.request("POST", self._target, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read(MAX_ANSWER_BYTES + 1)
        if len(content) > MAX_ANSWER_BYTES:
            raise http.client.HTTPException(f"answer above {MAX_ANSWER_BYTES} bytes")
        return content
