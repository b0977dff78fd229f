"""A step runs only if its inputs have changed."""

import dataclasses
import io
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines.common.artifacts import MANIFEST
from pipelines.common.errors import PipelineError
from pipelines.workflow import run as run_module
from pipelines.workflow.run import STEPS, Run

ORDER = ("ingest", "fit", "train", "evaluate", "export")
SETTINGS = {step: {"of": step} for step in STEPS}
SOURCES = {"/data/a.parquet": "17 1"}


@dataclasses.dataclass
class Recorder:
    """Runs steps that write a file, and remembers which."""

    folder: Path
    settings: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(SETTINGS))
    seed: int = 7
    sources: Mapping[str, str] = dataclasses.field(default_factory=lambda: dict(SOURCES))
    force: bool = False
    output: io.StringIO = dataclasses.field(default_factory=io.StringIO)

    @property
    def run(self) -> Run:
        console = Console(file=self.output, width=80)
        files = partial(dict, self.sources)
        return Run(self.folder, self.settings, self.seed, console, self.force, files=files)

    def execute(self, *steps: str) -> list[str]:
        """The steps that did run."""
        ran: list[str] = []
        for step in steps or ORDER:

            def build(folder: Path, step: str = step) -> Mapping[str, Any]:
                (folder / "file").write_text(step)
                ran.append(step)
                return {"rows": len(step)}

            self.run.execute(step, build, self.sources if step == "ingest" else None)
        return ran


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    recorder = Recorder(tmp_path / "run")
    assert recorder.execute() == list(ORDER)
    return recorder


def test_a_manifest_holds_what_made_the_folder(recorder: Recorder) -> None:
    ingest, train = (
        json.loads((_path(recorder, s) / MANIFEST).read_text()) for s in ORDER[::2][:2]
    )
    assert ingest["step"] == "ingest"
    assert ingest["inputs"] == ingest["sources"] == SOURCES
    assert ingest["seed"] == 7
    assert ingest["settings"] == {"seed": 7, "of": "ingest"}
    assert ingest["rows"] == len("ingest")
    assert set(train["inputs"]) == {"ingest", "fit"}
    assert train["inputs"]["ingest"] == ingest["fingerprint"]
    assert {"versions", "created", "seconds", "config_hash"} <= set(train)


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ("ingest", ["ingest", "fit", "train", "evaluate", "export"]),
        ("fit", ["fit", "train", "evaluate", "export"]),
        ("train", ["train", "evaluate", "export"]),
        ("evaluate", ["evaluate"]),
        ("export", ["export"]),
    ],
)
def test_changed_setting_runs_dependent_steps(
    recorder: Recorder, changed: str, again: list[str]
) -> None:
    recorder.settings = {**SETTINGS, changed: {"of": "something else"}}
    assert recorder.execute() == again
    assert recorder.execute() == []


@pytest.mark.parametrize(
    "change",
    [{"seed": 8}, {"sources": {"/data/a.parquet": "17 2"}}, {"sources": {}}, {"force": True}],
    ids=str,
)
def test_changed_seed_or_source_and_force_run_all_steps(
    recorder: Recorder, change: dict[str, Any]
) -> None:
    if "force" in change:  # its own step only, which makes the same
        assert dataclasses.replace(recorder, **change).execute("fit") == ["fit"]
        assert recorder.execute() == []
    assert dataclasses.replace(recorder, **change).execute() == list(ORDER)


def test_other_versions_of_the_packages_run_everything(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "versions", lambda: {"keras": "99"})
    assert recorder.execute() == list(ORDER)


def test_step_needs_earlier_steps(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "[bold]")
    data = re.escape(str(recorder.folder / "data"))
    message = f"{data} does not exist yet: run `recsys-attn ingest` first, or all steps"
    with pytest.raises(PipelineError, match=message):
        recorder.execute("train")
    assert recorder.execute("ingest") == ["ingest"]
    assert "[bold]" in recorder.output.getvalue()  # its folder is no markup
    with pytest.raises(PipelineError, match=r"features does not exist yet: run `recsys-attn fit`"):
        recorder.execute("train")
    assert not _path(recorder, "train").exists()


def test_step_refuses_inputs_of_other_settings(recorder: Recorder) -> None:
    recorder.settings = {**SETTINGS, "fit": {"of": "something else"}}
    message = (
        r"features was made with another configuration: `of` was \"fit\" and is \"something "
        r"else\" now\. To keep its values, pass .*run instead of the experiment file, "
        r"without --set; for the new values, run `recsys-attn fit` again, or `recsys-attn run` for "
    )
    with pytest.raises(PipelineError, match=message):
        recorder.execute("train")
    with pytest.raises(PipelineError, match=message):
        recorder.run.manifest("train")


def test_error_names_changes_of_all_earlier_steps(recorder: Recorder) -> None:
    recorder.settings = {**SETTINGS, **{step: {"of": step.upper()} for step in ORDER}}
    with pytest.raises(PipelineError) as caught:
        recorder.run.manifest("evaluate")
    for step in ("ingest", "fit", "train", "evaluate"):
        assert str(caught.value).count(f'`of` was "{step}" and is "{step.upper()}" now') == 1


def test_rerun_step_names_changed_settings(recorder: Recorder) -> None:
    recorder.settings = {**SETTINGS, "train": {"of": "[bold]"}}
    recorder.seed = 8
    recorder.output.truncate(0)
    recorder.execute("ingest", "fit", "train")
    lines = recorder.output.getvalue().strip("\0").splitlines()
    done = [line.partition(": settings changed: ") for line in lines if "settings" in line]
    assert [(step, text) for step, _, text in done] == [
        ("ingest", "`seed` was 7 and is 8 now"),
        ("fit", "`seed` was 7 and is 8 now"),
        ("train", '`seed` was 7 and is 8 now; `of` was "train" and is "[bold]" now'),
    ]


def test_folder_of_older_version_is_rebuilt(recorder: Recorder) -> None:
    path = _path(recorder, "fit") / MANIFEST
    manifest = json.loads(path.read_text())
    del manifest["settings"]
    path.write_text(json.dumps({**manifest, "config_hash": "older", "fingerprint": "older"}))
    with pytest.raises(PipelineError, match="an older recsys-attn recorded no settings"):
        recorder.run.manifest("fit")
    assert recorder.execute("fit") == ["fit"]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"fingerprint": 3}'])
def test_damaged_manifest_is_rewritten_by_its_step(recorder: Recorder, content: str) -> None:
    (_path(recorder, "fit") / MANIFEST).write_text(content)
    with pytest.raises(PipelineError, match=r"features"):
        recorder.execute("train")
    assert recorder.execute() == ["fit"]


def _path(recorder: Recorder, step: str) -> Path:
    return recorder.folder / STEPS[step].folder


def test_step_refuses_outdated_inputs(recorder: Recorder) -> None:
    recorder.sources = {"/data/a.parquet": "18 1"}
    assert recorder.execute("ingest") == ["ingest"]
    with pytest.raises(
        PipelineError, match=r"features was made from inputs that have changed since"
    ):
        recorder.execute("train")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", ORDER[1:])
@pytest.mark.parametrize(
    ("sources", "change"),
    [
        ({"/data/a.parquet": "1800 1"}, "a.parquet had 17 bytes and has 1,800 now"),
        ({"/data/a.parquet": "17 2"}, "a.parquet has the same size but was written again at"),
        ({}, "a.parquet is gone"),
        ({**SOURCES, "/data/b.parquet": "3 1"}, "/data/b.parquet is new"),
        ({**SOURCES, **{f"/data/{n}": "3 1" for n in range(7)}}, "/2 is new; 4 more files"),
    ],
    ids=["size", "time", "gone", "new", "many"],
)
def test_every_step_names_the_files_that_changed(
    recorder: Recorder, step: str, sources: Mapping[str, str], change: str
) -> None:
    recorder.sources = sources
    with pytest.raises(PipelineError, match=rf"data was made from files that.*{change}.*ingest`"):
        recorder.execute(step)
    recorder.output.truncate(0)
    assert recorder.execute() == list(ORDER)
    assert "ingest: files changed: " in recorder.output.getvalue()


def test_another_path_is_a_changed_setting(recorder: Recorder) -> None:
    recorder.execute()
    recorder.sources = {"/data/b.parquet": "3 1"}
    recorder.settings = {**SETTINGS, "ingest": {"path": "b"}}
    with pytest.raises(PipelineError, match=r'another configuration: .*`path` .* is "b" now'):
        recorder.execute("evaluate")
    recorder.output.truncate(0)
    recorder.execute()
    printed = recorder.output.getvalue()
    assert "ingest: settings changed: " in printed
    assert "files changed" not in printed


def test_files_that_change_while_a_command_runs_are_the_next_ones(recorder: Recorder) -> None:
    run = recorder.run
    run.execute("ingest", lambda folder: {}, run.stamps)
    recorder.sources = {}
    run.execute("fit", lambda folder: {})


def test_files_that_cannot_be_reached_are_not_asked_for(recorder: Recorder) -> None:
    def gone() -> Mapping[str, str]:
        raise PipelineError("no file or folder is at /data")

    dataclasses.replace(recorder.run, files=gone).execute("evaluate", lambda folder: {})
