"""A client of the scoring service: raw values in, numpy scores out; blocking, and for asyncio."""

from serving.client.asynchronous import AsyncClient
from serving.client.blocking import Client
from serving.client.options import Options
from serving.common.tls import Tls

__all__ = ["AsyncClient", "Client", "Options", "Tls"]
