"""A table of the time that each folder of tests takes."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator

import pytest


def processor_seconds() -> float:
    """Of this process and of those it started and waited for."""
    return sum(os.times()[:4])


class FolderTimes:
    """Sums the time of tests and fixtures by folder, over all processes of pytest-xdist.

    Seconds of a processor hardly depend on other work of the machine; those of a clock do. What a
    fixture starts counts where it ends, and a folder takes what its first test makes for others.
    """

    def __init__(self) -> None:
        self._before = 0.0
        self._tests: defaultdict[str, set[str]] = defaultdict(set)
        self._processor: defaultdict[str, float] = defaultdict(float)
        self._clock: defaultdict[str, float] = defaultdict(float)

    def pytest_collection_finish(self) -> None:
        self._before = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = processor_seconds()
        report.__dict__["processor"] = now - self._before  # travels with the report
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = os.path.dirname(report.nodeid.partition("::")[0])
        self._tests[folder].add(report.nodeid)
        self._processor[folder] += report.__dict__["processor"]
        self._clock[folder] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._tests) < 2:
            return
        row = "{:<50}{:>7}{:>12.1f}{:>10.1f}".format
        terminalreporter.section("time by folder, in seconds")
        head = "{:<50}{:>7}{:>12}{:>10}".format("folder", "tests", "processor", "clock")
        terminalreporter.write_line(head)
        for folder in sorted(self._tests, key=lambda name: -self._processor[name]):
            counts = len(self._tests[folder]), self._processor[folder], self._clock[folder]
            terminalreporter.write_line(row(folder, *counts))
        sums = sum(self._processor.values()), sum(self._clock.values())
        terminalreporter.write_line(row("all", sum(map(len, self._tests.values())), *sums))
