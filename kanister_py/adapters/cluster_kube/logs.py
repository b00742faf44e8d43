"""Container logs over HTTP. Followed logs are resumed, with every line exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from kanister_py.adapters.cluster_kube.error_responses import Subject
from kanister_py.adapters.cluster_kube.requests import (
    Request,
    Requests,
    ResponseStream,
    StreamBroken,
    lines_of,
)
from kanister_py.core.errors import ApiError, BadRequest, NotFound, StreamLost, TransientError
from kanister_py.core.kube.parts import status_of
from kanister_py.ports.cluster import KubeObject, LogOptions

_RESUME_SECONDS: Final = 0.5
_MOST_RESUMES_AFTER_END: Final = 3
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _Moment(NamedTuple):
    """Timestamp of a line, to the nanosecond."""

    second: int
    nanosecond: int


class KubeLogStream(ResponseStream):
    """Log of a container. If the connection of a followed log breaks, it is resumed.

    To find the position, lines are requested with their timestamps: earlier lines are skipped, and
    of those with the same timestamp as many as were already returned.
    """

    def __init__(
        self,
        requests: Requests,
        path: str,
        subject: Subject,
        options: LogOptions,
        read_pod: Callable[[], KubeObject],
    ) -> None:
        super().__init__(requests)
        self._path = path
        self._subject = subject
        self._options = options
        self._read_pod = read_pod
        # A log with a size limit, or of a previous container, cannot be resumed.
        self._is_resumable = options.follow and not options.previous and options.limit_bytes is None
        self._last: _Moment | None = None
        self._last_text = ""
        self._seen_at_last = 0
        self._open()

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._resumed() if self._is_resumable else self._pieces()
        finally:
            self.close()
            self._drop()

    # Single connections

    def _open(self) -> None:
        options, timing = self._options, self._requests.timing
        query = [
            ("container", options.container),
            ("follow", "true" if options.follow else ""),
            ("previous", "true" if options.previous else ""),
            ("timestamps", "true" if options.timestamps or self._is_resumable else ""),
            ("limitBytes", _text(options.limit_bytes)),
        ]
        if self._last is None:
            query += [
                ("sinceSeconds", _text(options.since_seconds)),
                ("sinceTime", options.since_time),
                ("tailLines", _text(options.tail_lines)),
            ]
        else:
            # The API server ignores fractions of a second here, which only makes it start earlier.
            query.append(("sinceTime", self._last_text))
        self._ask(
            Request(
                "GET",
                self._path,
                self._subject,
                [pair for pair in query if pair[1]],
                is_repeatable=True,
                # A container may print nothing for hours. That its node is gone is detected by TCP
                # keep-alive, and by reading the pod.
                silence=timing.log_silence if options.follow else None,
            )
        )

    def _pieces(self) -> Iterator[bytes]:
        """Yield chunks of one connection. Raises `StreamLost` if it breaks."""
        try:
            yield from super()._pieces()
        except StreamBroken as error:
            raise StreamLost(f"the log of {self._subject.name} broke: {error}") from error

    # Resuming

    def _resumed(self) -> Iterator[bytes]:
        after_end = 0
        while True:
            lost: StreamLost | None = None
            try:
                yield from self._new_lines()
            except StreamLost as error:
                lost = error
            if self._was_closed.is_set():
                return
            self._drop()
            if self._has_ended():
                after_end += 1
                if lost is None:
                    return
                if after_end > _MOST_RESUMES_AFTER_END:
                    raise lost
            self._requests.pause(_RESUME_SECONDS)
            try:
                if not self._was_closed.is_set():
                    self._open()
            except (BadRequest, NotFound) as error:
                # The pod, the container or the log no longer exists.
                if lost is None:
                    return
                raise StreamLost(f"the log of {self._subject.name} is gone: {error}") from error

    def _new_lines(self) -> Iterator[bytes]:
        resume_from, to_skip = self._last, self._seen_at_last
        for line in lines_of(self._pieces()):
            stamp, _, text = line.partition(b" ")
            moment = _moment_of(stamp)
            if moment is None:
                # The server sent no timestamp, so the line is returned and the log cannot be
                # resumed.
                yield line
                continue
            if resume_from is not None:
                if moment < resume_from:
                    continue
                if moment == resume_from and to_skip > 0:
                    to_skip -= 1
                    continue
            if moment == self._last:
                self._seen_at_last += 1
            else:
                self._last, self._seen_at_last = moment, 1
                self._last_text = stamp.decode("ascii")
            yield line if self._options.timestamps else text

    def _has_ended(self) -> bool:
        """Return True if the container has terminated. A restarted container has a new log."""
        try:
            status = status_of(self._read_pod())
        except NotFound:
            return True
        except TransientError:
            # An API server that shuts down ends its logs normally, although containers still run.
            return False
        except ApiError:
            # Without the permission to read the pod, only the log itself shows its end.
            return True
        container = _status_of(status, self._options.container)
        state = container.get("state") or {}
        if status.get("phase") in _ENDED or "terminated" in state:
            return True
        before = (container.get("lastState") or {}).get("terminated")
        return before is not None and self._ended_after_last(str(before.get("finishedAt") or ""))

    def _ended_after_last(self, finished_at: str) -> bool:
        moment = _moment_of(finished_at.encode())
        return self._last is None or moment is None or moment.second >= self._last.second


def _moment_of(stamp: bytes) -> _Moment | None:
    try:
        text = stamp.decode("ascii")
        seconds, dot, fraction = text.partition(".")
        if not dot:
            return _Moment(int(datetime.fromisoformat(text).timestamp()), 0)
        digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
        second = int(datetime.fromisoformat(seconds + fraction[len(digits) :]).timestamp())
        return _Moment(second, int(digits[:9].ljust(9, "0")))
    except (ValueError, OverflowError):
        return None


def _status_of(status: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    rows = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
        *(status.get("ephemeralContainerStatuses") or ()),
    ]
    for row in rows:
        if row.get("name") == container or not container:
            return dict(row)
    return {}


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
