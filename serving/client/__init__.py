"""Clients of the scoring service, blocking and for asyncio: raw values in, NumPy scores out."""

from serving.client.asynchronous import AsyncClient
from serving.client.blocking import Client
from serving.client.options import ClientOptions
from serving.client.ranking import Ranking
from serving.common.tls import Tls

__all__ = ["AsyncClient", "Client", "ClientOptions", "Ranking", "Tls"]
