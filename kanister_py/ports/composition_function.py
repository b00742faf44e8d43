"""What a composition function is to us: the face that authors of functions write against."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pydantic import BaseModel


class CompositionFunction(ABC):
    """A function of a composition. One instance serves one call: keep state in locals.

    `request` and the answer are messages of the protocol as protobuf writes them in
    JSON. An author may change neither the request nor anything inside it.
    """

    name: ClassVar[str]
    Input: ClassVar[type[BaseModel] | None] = None
    """What a step may hand in; None for a function that reads its input itself."""

    @abstractmethod
    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """Answer one request. A coroutine function is awaited."""


__all__ = ["CompositionFunction"]
