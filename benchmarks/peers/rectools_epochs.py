"""Times the epochs of RecTools' SASRec, as it is, on a file of events; prints JSON.

Run by `benchmarks.sequence_training` with a Python that has `rectools[torch]`.
"""

import json
import sys
import time

import pandas as pd
import pytorch_lightning as lightning
from rectools.dataset import Dataset
from rectools.models import SASRecModel
from rectools.models.nn.item_net import IdEmbeddingsItemNet

path, loss, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
TIMES: list[float] = []


class Clock(lightning.Callback):
    """Notes the seconds of each epoch."""

    def on_train_epoch_start(self, *args: object) -> None:
        """Starts the clock."""
        self.begin = time.perf_counter()

    def on_train_epoch_end(self, *args: object) -> None:
        """Notes the seconds."""
        TIMES.append(time.perf_counter() - self.begin)


def trainer() -> lightning.Trainer:
    """Returns the trainer of RecTools' default, on the CPU, with the clock."""
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[Clock()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


events = pd.read_csv(path).rename(columns={"user": "user_id", "item": "item_id"})
events["datetime"], events["weight"] = pd.to_datetime(events.pop("time"), unit="s"), 1.0
model = SASRecModel(
    n_blocks=2,
    n_heads=1,
    n_factors=64,
    dropout_rate=0.1,
    session_max_len=200,
    loss=loss,
    n_negatives=1 if loss == "BCE" else 128,
    batch_size=128,
    epochs=epochs,
    item_net_block_types=(IdEmbeddingsItemNet,),
    get_trainer_func=trainer,
)
model.fit(Dataset.construct(events))
print(json.dumps(TIMES))
