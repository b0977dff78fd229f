"""A market that lives: requests in order of time, whose users remember what they clicked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.ingest.data_options import SimulateOptions
from pipelines.ingest.simulate.click_memory import ClickMemory
from pipelines.ingest.simulate.click_model import ClickModel
from pipelines.ingest.simulate.drift import Day
from pipelines.ingest.simulate.request_draws import RequestDraws, draw_candidates, requests_at_once
from pipelines.ingest.simulate.timeline import DAY, HOUR, LOG_START, Timeline
from pipelines.ingest.simulate.world import DEVICE_NAMES, DEVICE_SHARE, DEVICES, World


@dataclass(frozen=True)
class Requests:
    """R requests in order of time with T candidates each, as indices.

    To show other candidates than those of the market, `dataclasses.replace(requests, item=...)`.

    Attributes:
        number: Ids of the requests `(R,)`.
        time: Unix seconds `(R,)`.
        user: `(R,)`.
        device: `(R,)`.
        item: Candidates `(R, T)`, the items' ids.
    """

    number: np.ndarray
    time: np.ndarray
    user: np.ndarray
    device: np.ndarray
    item: np.ndarray

    def __len__(self) -> int:
        """Number of requests."""
        return len(self.number)

    def take(self, chosen: np.ndarray) -> Requests:
        """Some of the requests."""
        return Requests(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    @property
    def hour(self) -> np.ndarray:
        """The hour of the day `(R,)`."""
        return self.time % DAY // HOUR

    @property
    def day(self) -> np.ndarray:
        """Days since the first `(R,)`."""
        return (self.time - LOG_START) // DAY


class LivingMarket:
    """A world over days: gives the requests of a span of time, and the outcomes of shown items.

    Args:
        size: Sizes, and the drift of a day; `rows` over `days` is the pace.
        days: Days over which `rows` are spread. The market goes on after them.
        seed: Seed of everything.

    Example:
        market = LivingMarket(SimulateOptions(rows=10_000), 7, seed=1)
        requests = market.requests(LOG_START, LOG_START + 3_600)
        rows = pa.table(market.rows(requests) | market.outcomes(requests))
    """

    def __init__(self, size: SimulateOptions, days: int, seed: int) -> None:
        world = World.create(size, seed)
        self._world = world
        self._seed = seed
        self._model = ClickModel(world, seed)
        self._memory = ClickMemory(size.users, size.history_length)
        self._outcomes = np.random.default_rng([seed, 5])
        self._day = Day.first(world, seed)
        per_day = size.rows // size.candidates / days
        self.timeline = Timeline(per_day, world.hour_share, requests_at_once(size))

    def users(self) -> pa.Table:
        """The features of all users, by `user_id`."""
        return pa.table({"user_id": self._world.user_names} | self._world.user_features())

    def items(self) -> pa.Table:
        """The features of all items, by `item_id`."""
        ids = pa.array(np.arange(self._world.size.items))
        return pa.table({"item_id": ids} | self._world.item_features())

    def requests(self, start: int, stop: int) -> Requests:
        """The requests with `start <= time < stop`, in Unix seconds; the same at every call.

        Args:
            start: `LOG_START` or later.
            stop: The end.
        """
        step = self.timeline.step
        starts = range(start - (start - LOG_START) % step, max(stop, start + 1), step)
        drawn = [self._drawn(first) for first in starts]
        names = Requests.__dataclass_fields__
        every = Requests(*(np.concatenate([getattr(of, name) for of in drawn]) for name in names))
        return every.take((every.time >= start) & (every.time < stop))

    def rows(self, requests: Requests) -> dict[str, pa.Array]:
        """The columns of requests without outcomes, a row for each candidate."""
        row = pa.array(np.repeat(np.arange(len(requests)), requests.item.shape[1]))
        columns = {
            "request_id": pa.array(requests.number),
            "timestamp": pa.array(requests.time),
            "user_id": self._world.user_names.take(pa.array(requests.user)),
            "device": DEVICE_NAMES.take(pa.array(requests.device)),
            "hour": pa.array(requests.hour),
        }
        repeated = {name: column.take(row) for name, column in columns.items()}
        return repeated | {"item_id": pa.array(requests.item.ravel())}

    def outcomes(self, requests: Requests) -> dict[str, pa.Array]:
        """Labels and true probabilities of the shown candidates, which their users remember.

        The user's last `history_length` clicks with a strictly earlier time count, as in
        `[[data.histories]]`. So calls must be in order of time, and none may end within a second;
        other cuts of the same requests give the same outcomes.
        """
        count, candidates = requests.item.shape
        draws = self._outcomes.random((count, 2, candidates)).swapaxes(0, 1)
        click, conversion = np.empty_like(draws)
        for day in np.unique(requests.day):
            world = self._day_of(day).world
            for rows in _rounds(requests, np.flatnonzero(requests.day == day)):
                of = requests.take(rows)
                past = self._memory.of(of.user)
                draw = RequestDraws(of.user, of.device, of.hour, of.item, past)
                click[rows], conversion[rows] = self._model.probabilities(world, draw)
                clicked = draws[0, rows] < click[rows]
                user = np.repeat(of.user, clicked.sum(axis=1))
                self._memory.add(user, of.item[clicked])
        return self._model.columns(click, conversion, draws)

    def _drawn(self, start: int) -> Requests:
        """The requests of a step, a function of the seed, the sizes and its start."""
        number, time = self.timeline.times(start)
        day = self._day_of((start - LOG_START) // DAY)
        rng = np.random.default_rng([self._seed, 2, start])
        user = rng.integers(self._world.size.users, size=len(number))
        device = rng.choice(DEVICES, size=len(number), p=DEVICE_SHARE)
        item = draw_candidates(day.world, rng, day.interests[user])
        return Requests(number, time, user, device, item)

    def _day_of(self, number: int) -> Day:
        if number < self._day.number:
            self._day = Day.first(self._world, self._seed)
        while self._day.number < number:
            self._day = self._day.next(self._seed)
        return self._day


def _rounds(requests: Requests, among: np.ndarray) -> list[np.ndarray]:
    """Divides requests so that the k-th has the k-th moment of each user."""
    user, time = requests.user[among], requests.time[among]
    order = np.lexsort((time, user))
    user, time = user[order], time[order]
    begins = np.append(True, user[1:] != user[:-1])
    moment = np.cumsum(begins | np.append(True, time[1:] != time[:-1]))
    number = moment - moment[np.maximum.accumulate(np.where(begins, np.arange(len(user)), 0))]
    by_round = np.argsort(number, kind="stable")
    places = np.searchsorted(number[by_round], np.arange(1, number.max() + 1))
    return [np.sort(among[order[of]]) for of in np.split(by_round, places)]
