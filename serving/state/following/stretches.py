"""The order in which the files of a folder were taken, which makes one log of them.

A store keeps it, so that a row has the same place in the log however often it is read, and for all
states of the store. A stretch is a part of a file. Only the last one, the head, may grow, as a file
of JSON lines does; once another follows it, it stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, dataclass, replace

from serving.state.keyed.keys import key_bytes
from serving.state.stores.store import Cell, Change, Store

_HEAD = -1
_AT_ONCE = 256  # cells that are read together


@dataclass(frozen=True)
class Stretch:
    """A part of a file.

    Attributes:
        number: Its number in the order of the log, from 0.
        name: The file, relative to the folder.
        start: Its first byte.
        stop: The byte after it.
    """

    number: int
    name: str
    start: int
    stop: int


class Stretches:
    """The stretches of a log in a store. Several processes may follow one folder.

    Args:
        store: The store.
        log: Id of the log.

    Attributes:
        ends: Up to which byte each file was taken, by its name.
    """

    def __init__(self, store: Store, log: int) -> None:
        self._store = store
        self._group = struct.pack(">q", log)
        self._closed: list[Stretch] = []
        self._head: bytes | None = None
        self.ends: dict[str, int] = {}
        self.refresh()

    def refresh(self) -> None:
        """Reads the stretches that are new."""
        self._head = self._read([_HEAD])[0]
        head = self.head
        while head is not None and len(self._closed) < head.number:
            stop = min(len(self._closed) + _AT_ONCE, head.number)
            blobs = self._read(range(len(self._closed), stop))
            self._add([_parsed(blob) for blob in blobs if blob is not None])
        if head is not None:
            self.ends[head.name] = head.stop

    @property
    def head(self) -> Stretch | None:
        """The last stretch."""
        return None if self._head is None else _parsed(self._head)

    def __getitem__(self, number: int) -> Stretch | None:
        """A stretch by its number; None: there is none yet."""
        if number < len(self._closed):
            return self._closed[number]
        head = self.head
        return head if head is not None and head.number == number else None

    def take(self, name: str, stop: int) -> None:
        """Adds the rest of a file, up to a byte, unless another process has taken a part since."""
        head = self.head
        if head is None:
            taken = Stretch(0, name, 0, stop)
        elif head.name == name:
            taken = replace(head, stop=stop)
        else:
            taken = Stretch(head.number + 1, name, self.ends.get(name, 0), stop)
            (before,) = self._read([head.number])
            if before != self._head and not self._write(head.number, before, head):
                return self.refresh()
        self._write(_HEAD, self._head, taken)
        return self.refresh()

    def _add(self, stretches: list[Stretch]) -> None:
        self._closed += stretches
        for stretch in stretches:
            self.ends[stretch.name] = stretch.stop

    def _read(self, numbers: range | list[int]) -> list[bytes | None]:
        return self._store.read([self._cell(number) for number in numbers])

    def _write(self, number: int, before: bytes | None, stretch: Stretch) -> bool:
        text = json.dumps(asdict(stretch)).encode()
        version = hashlib.blake2b(text, digest_size=8).digest()
        blob = struct.pack("<q", 1) + version + text
        return self._store.write([Change(self._cell(number), before, blob, {})], {})[0]

    def _cell(self, number: int) -> Cell:
        return Cell(self._group, (key_bytes(number, "int64"),))


def _parsed(blob: bytes) -> Stretch:
    return Stretch(**json.loads(blob[16:]))
