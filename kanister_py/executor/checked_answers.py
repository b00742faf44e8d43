"""Tags of answers: each must be the tag of the request that it answers, or none."""

from __future__ import annotations

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.ports.function_runner import FunctionAnswerInvalid, FunctionCall, FunctionRunner


class TagCheckingRunner:
    """Refuses an answer that is to another request.

    A proxy or a function that keeps answers, or mixes up its callers, would have one
    composite resource composed of what was meant for another.
    """

    def __init__(self, inner: FunctionRunner) -> None:
        self._inner = inner

    def run(self, call: FunctionCall) -> FunctionResponse:
        response = self._inner.run(call)
        asked = call.request.tag
        # Functions may leave it out: the protocol lets every field be empty.
        if asked and response.tag and response.tag != asked:
            revision = call.revision
            why = (
                f"it answered another request: its response bears the tag {response.tag!r}, "
                f"the request {asked!r}"
            )
            raise FunctionAnswerInvalid(call.step, revision.function, revision.name, why)
        return response

    def close(self) -> None:
        self._inner.close()
