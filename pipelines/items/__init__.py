"""Features of items and users by their ids, and draws of items."""

from pipelines.items.item_table import ItemTable
from pipelines.items.sampler import Sampler
from pipelines.items.user_table import UserTable

__all__ = ["ItemTable", "Sampler", "UserTable"]
