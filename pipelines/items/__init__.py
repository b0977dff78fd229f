"""The item table: features of items by their id, and draws of its rows."""

from pipelines.items.item_table import ItemTable
from pipelines.items.sampler import Sampler

__all__ = ["ItemTable", "Sampler"]
