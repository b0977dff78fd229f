"""The progress of a training as plain data."""

from pipelines.training.training_state import TrainingProgress


def test_upgraded_packages_list_all_versions() -> None:
    progress = TrainingProgress()
    for keras, numpy in (("3.1", "2.0"), ("3.1", "2.1"), ("3.2", "2.1"), ("3.1", "2.1")):
        progress.go_on_with({"keras": keras, "numpy": numpy})
    assert progress.versions == {"keras": "3.1, 3.2", "numpy": "2.0, 2.1"}
