"""Is an answer taken that is to somebody else's request?"""

from __future__ import annotations

import pytest

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.executor.checked_answers import TagCheckingRunner
from kanister_py.ports.function_runner import FunctionAnswerInvalid, FunctionCall
from tests.contracts.function_runner import request_with


class Answering:
    """Answers with one tag, whatever it is asked."""

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def run(self, _call: FunctionCall) -> FunctionResponse:
        return FunctionResponse(tag=self._tag)

    def close(self) -> None:
        pass


def answer(asked: str, answered: str) -> FunctionResponse:
    call = FunctionCall("one", FunctionRevision("f", "f-1", 1), request_with(tag=asked))
    return TagCheckingRunner(Answering(answered)).run(call)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        pytest.param("a", "a", id="its own"),
        pytest.param("a", "", id="none"),
        pytest.param("", "a", id="one that nobody gave"),
    ],
)
def test_an_answer_is_taken_whose_tag_is_no_other_requests(asked: str, answered: str) -> None:
    assert answer(asked, answered).tag == answered


def test_an_answer_to_another_request_is_refused() -> None:
    with pytest.raises(FunctionAnswerInvalid, match="it answered another request") as caught:
        answer("a", "b")
    assert "the tag 'b', the request 'a'" in caught.value.message
