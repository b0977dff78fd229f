"""A store on Valkey or Redis, for many writing and reading machines.

| key | type | content |
|---|---|---|
| `FINGERPRINT:s{OWNER}` | string | the blob of a key of one column |
| `FINGERPRINT:h{OWNER}` | hash | the blobs of the longer keys of an owner, by their other columns |
| `FINGERPRINT:i{OWNER}BUCKET` | hash | features, as bits, that have counted an event, by event id |
| `notes` | hash | notes by name |

The fingerprint is in hexadecimal digits. The owner, the first column of a key, is the hash tag: all
of it is in one slot of a cluster, and a change of a cell with its event ids is one script.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from serving.state.errors import DataError
from serving.state.keyed.keys import Key, split_key
from serving.state.stores.store import Cell, Change, SeenId, StoreUnavailable

_NOTES = b"notes"
_NOBODY = b"-"  # the owner of the empty key: a hash tag may not be empty
_BUCKET = 8  # bytes of an event
_PART = 1000  # keys of one MSET, and of one page of a walk
_ALL = 100_000  # notes, in one round trip
_OWNERS = 100  # hashes that a walk reads at once
_CONNECT = 0.1  # seconds at least: a connection with TLS takes more time than a read
_WRITE = """
local blob
if ARGV[1] == '' then blob = redis.call('GET', KEYS[1])
else blob = redis.call('HGET', KEYS[1], ARGV[1]) end
if (blob and redis.sha1hex(blob) or '') ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' then
  if ARGV[1] == '' then redis.call('SET', KEYS[1], ARGV[3])
  else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
elseif ARGV[1] == '' then redis.call('DEL', KEYS[1])
else redis.call('HDEL', KEYS[1], ARGV[1]) end
local first = 5
for k = 2, #KEYS do
  local last = first + tonumber(ARGV[first])
  for at = first + 1, last, 1000 do
    redis.call('HSET', KEYS[k], unpack(ARGV, at, math.min(at + 999, last)))
  end
  if ARGV[4] ~= '' then redis.call('EXPIRE', KEYS[k], ARGV[4]) end
  first = last + 1
end
return 1
"""


class RedisStore:
    """Blobs on a server of Valkey or Redis, or on a cluster.

    A change is on the server when `write` returns; its settings say when it is on disk.

    Args:
        url: The address, as redis-py has it: `redis://HOST:PORT/DATABASE`, `rediss://` with TLS,
            with `USER:PASSWORD@` before the host. `redis+cluster://` or `rediss+cluster://`: any
            node of a cluster.
        timeout: Seconds that an answer may take.

    Raises:
        DataError: The address is none.
        StoreUnavailable: No node of the cluster answers.
    """

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        self._url = url
        self._address = url.rpartition("@")[2].rpartition("//")[2].partition("?")[0]
        self._timeout = timeout
        self._is_cluster = url.partition(":")[0].endswith("+cluster")
        kind: Any = redis.RedisCluster if self._is_cluster else redis.Redis
        try:
            with self._answering():
                self._client = kind.from_url(
                    url.replace("+cluster", "", 1),
                    socket_timeout=timeout,
                    socket_connect_timeout=max(timeout, _CONNECT),
                    retry=Retry(NoBackoff(), 0),  # a lost answer must not make a change twice
                )
        except ValueError:
            raise DataError(
                f"The store: expected redis://HOST:PORT/0. Received: {self._address!r}."
            ) from None

    def read(self, cells: Sequence[Cell]) -> list[bytes | None]:
        """As `Store`."""
        strings: dict[int, list[int]] = defaultdict(list)
        hashes: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
        for number, (group, key) in enumerate(cells):
            if len(key) > 1:
                hashes[group, key[0]].append(number)
            else:
                strings[self._slot(key)].append(number)
        requests = [
            ["MGET", *(_key(*cells[number]) for number in numbers)] for numbers in strings.values()
        ] + [
            ["HMGET", _key(*cells[numbers[0]]), *(_field(cells[number].key) for number in numbers)]
            for numbers in hashes.values()
        ]
        blobs: list[bytes | None] = [None] * len(cells)
        places = itertools.chain(strings.values(), hashes.values())
        for numbers, answer in zip(places, self._all(requests), strict=True):
            for number, blob in zip(numbers, answer, strict=True):
                blobs[number] = blob
        return blobs

    def read_ids(self, ids: Sequence[SeenId]) -> list[int]:
        """As `Store`."""
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for number, seen in enumerate(ids):
            buckets[_bucket(seen.cell, seen.event)].append(number)
        requests = [
            ("HMGET", bucket, *(_id(*ids[number]) for number in numbers))
            for bucket, numbers in buckets.items()
        ]
        bits = [0] * len(ids)
        for numbers, answers in zip(buckets.values(), self._all(requests), strict=True):
            for number, answer in zip(numbers, answers, strict=True):
                bits[number] = int(answer or 0)
        return bits

    def write(
        self,
        changes: Sequence[Change],
        notes: Mapping[bytes, bytes],
        expire: int | None = None,
    ) -> list[bool]:
        """As `Store`."""
        made = [bool(done) for done in self._all([_change(c, expire) for c in changes])]
        if all(made):
            self._note(notes)
        return made

    def load(
        self, cells: Sequence[Cell], blobs: Sequence[bytes], notes: Mapping[bytes, bytes]
    ) -> None:
        """As `Store`."""
        strings: dict[int, list[bytes]] = defaultdict(list)
        hashes: dict[bytes, list[bytes]] = defaultdict(list)
        for (group, key), blob in zip(cells, blobs, strict=True):
            if len(key) > 1:
                hashes[_key(group, key)] += _field(key), blob
            else:
                strings[self._slot(key)] += _key(group, key), blob
        requests = [["HSET", key, *fields] for key, fields in hashes.items()]
        for pairs in strings.values():
            for first in range(0, len(pairs), 2 * _PART):  # readers need not wait for long
                requests.append(["MSET", *pairs[first : first + 2 * _PART]])
        self._all(requests)
        self._note(notes)

    def load_ids(
        self, ids: Sequence[SeenId], bits: Sequence[int], expire: int | None = None
    ) -> None:
        """As `Store`."""
        buckets: dict[bytes, list[bytes | int]] = defaultdict(list)
        for seen, of_event in zip(ids, bits, strict=True):
            buckets[_bucket(seen.cell, seen.event)] += _id(*seen), of_event
        requests: list[tuple[Any, ...]] = []
        for bucket, fields in buckets.items():
            requests.append(("HSET", bucket, *fields))
            if expire is not None:
                requests.append(("EXPIRE", bucket, expire))
        self._all(requests)

    def notes(self, prefix: bytes) -> dict[bytes, bytes]:
        """As `Store`."""
        pattern = re.sub(rb"[*?\[\]\\]", rb"\\\g<0>", prefix) + b"*"
        with self._answering():
            return dict(self._client.hscan_iter(_NOTES, pattern, count=_ALL))

    def cells(self, group: bytes) -> Iterator[tuple[Key, bytes]]:
        """As `Store`."""
        start = len(_start(group, b"s"))
        for keys in self._under(_start(group, b"s"), _PART):
            owners = [key[start:-1] for key in keys]
            cells = [Cell(group, () if owner == _NOBODY else (owner,)) for owner in owners]
            for cell, blob in zip(cells, self.read(cells), strict=True):
                if blob is not None:
                    yield cell.key, blob
        for keys in self._under(_start(group, b"h"), _OWNERS):
            for key, field, blob in self._fields(keys):
                yield (key[start:-1], *split_key(field)), blob

    def forget_ids(self, group: bytes, before: bytes) -> None:
        """As `Store`."""
        for keys in self._under(_start(group, b"i"), _PART):
            self._all([("UNLINK", key) for key in keys if key[-_BUCKET:] < before])

    def within(self, timeout: float) -> RedisStore:
        """As `Store`, by connections of its own."""
        return RedisStore(self._url, timeout)

    def size(self) -> int:
        """As `Store`: the memory of the servers, with all that they hold."""
        with self._answering():
            if not self._is_cluster:
                return int(self._client.info("memory")["used_memory"])
            nodes = self._client.info("memory", target_nodes=redis.RedisCluster.PRIMARIES)
            # One node is not by its name.
            by_name = {self._address: nodes} if "used_memory" in nodes else nodes
            return sum(int(of_node["used_memory"]) for of_node in by_name.values())

    def close(self) -> None:
        """As `Store`."""
        self._client.close()

    def _slot(self, key: Key) -> int:
        """Keys of one slot may be in one request."""
        return int(self._client.keyslot(b"{%b}" % _owner(key))) if self._is_cluster else 0

    def _all(self, requests: Iterable[Sequence[Any]]) -> list[Any]:
        """The answer to each request, in one round trip."""
        with self._answering(), self._client.pipeline(transaction=False) as pipeline:
            for request in requests:
                pipeline.execute_command(*request)
            answers = pipeline.execute(raise_on_error=False)  # its errors show whole requests
            for error in answers:
                if isinstance(error, Exception):
                    raise error
            return list(answers)

    def _under(self, start: bytes, size: int) -> Iterator[list[bytes]]:
        """Keys that begin so, in parts."""
        keys = self._client.scan_iter(match=start + b"*", count=_PART)
        while True:
            with self._answering():
                part = list(itertools.islice(keys, size))
            if not part:
                return
            yield part

    def _fields(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
        """The fields of some hashes, each with its key and value."""
        cursors = dict.fromkeys(keys, 0)
        while cursors:
            requests = [("HSCAN", key, at, "COUNT", _PART) for key, at in cursors.items()]
            pages = dict(zip(cursors, self._all(requests), strict=True))
            for key, (_, fields) in pages.items():
                for field, blob in fields.items():
                    yield key, field, blob
            cursors = {key: cursor for key, (cursor, _) in pages.items() if cursor}

    def _note(self, notes: Mapping[bytes, bytes]) -> None:
        fields = [part for note in notes.items() for part in note]
        if fields:
            self._all([("HSET", _NOTES, *fields)])

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except redis.TimeoutError:
            reason = f"has not answered within {self._timeout:g} s"
        except redis.exceptions.OutOfMemoryError:
            reason = "is full: raise its `maxmemory`, or remove old keys with `state forget`"
        except (redis.RedisError, redis.exceptions.RedisClusterException) as error:
            reason = f"does not answer: {error}".rstrip(".")
        else:
            return
        raise StoreUnavailable(f"The store {self._address} {reason}.")


@functools.cache
def _start(group: bytes, kind: bytes) -> bytes:
    return group.hex().encode() + b":" + kind + b"{"


def _owner(key: Key) -> bytes:
    return key[0] if key else _NOBODY


def _key(group: bytes, key: Key) -> bytes:
    """The key on the server: a string, or a hash if the key has an owner and more."""
    return _start(group, b"h" if len(key) > 1 else b"s") + _owner(key) + b"}"


def _field(key: Key) -> bytes:
    """The field in the hash of the owner."""
    return b"".join(key[1:])


def _bucket(cell: Cell, event: bytes) -> bytes:
    return _start(cell.group, b"i") + _owner(cell.key) + b"}" + event[:_BUCKET]


def _id(cell: Cell, event: bytes) -> bytes:
    return event[_BUCKET:] + _field(cell.key)


def _change(change: Change, expire: int | None) -> tuple[Any, ...]:
    """The script of a change; without its ids there is but one key."""
    buckets: dict[bytes, list[bytes | int]] = defaultdict(list)
    for event, bits in change.ids.items():
        buckets[_bucket(change.cell, event)] += _id(change.cell, event), bits
    before = b"" if change.before is None else hashlib.sha1(change.before).hexdigest()
    arguments = [
        _field(change.cell.key),
        before,
        change.after or b"",
        "" if expire is None else expire,
    ]
    for fields in buckets.values():
        arguments += len(fields), *fields
    return ("EVAL", _WRITE, 1 + len(buckets), _key(*change.cell), *buckets, *arguments)
