"""A store that speaks as much of S3's protocol as reading needs, on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

OPTIONS = "scheme=http&region=us-east-1&endpoint_override=127.0.0.1:"
DATE = "2026-03-02T10:00:00Z"


@contextmanager
def serving(objects: Mapping[str, bytes]) -> Iterator[str]:
    """Serves objects by `bucket/key`; gives the options that a URI of them needs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            if "list-type" in query:
                bucket, prefix = url.path.strip("/"), query.get("prefix", [""])[0]
                self._answer(200, _listing(objects, bucket, prefix), "application/xml")
                return
            found = objects.get(unquote(url.path).lstrip("/"))
            if found is None:
                self._answer(404, b"", "application/xml")
                return
            first, _, last = self.headers.get("Range", "bytes=0-").partition("=")[2].partition("-")
            part = found[int(first) : int(last) + 1 if last else None]
            self._answer(206, part, "application/octet-stream")

        do_HEAD = do_GET

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", kind)
            self.send_header("Last-Modified", "Mon, 02 Mar 2026 10:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{OPTIONS}{server.server_port}"
        server.shutdown()


def _listing(objects: Mapping[str, bytes], bucket: str, prefix: str) -> bytes:
    keys = {name.removeprefix(f"{bucket}/"): len(data) for name, data in objects.items()}
    found = [
        f"<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>{DATE}</LastModified></Contents>"
        for key, size in sorted(keys.items())
        if key.startswith(prefix)
    ]
    count = f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>"
    return f"<ListBucketResult>{count}{''.join(found)}</ListBucketResult>".encode()
