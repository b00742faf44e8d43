"""Who are we to the functions that we call? A certificate in a Secret, and files beside it.

What calls functions reads files; what renews certificates writes Secrets. This is what
lies between, for as long as somebody leads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Final

from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.core.errors import CertificatesUnreadable, KanisterError
from kanister_py.executor.alarms import Alarm, Alarms
from kanister_py.ports.clock import Clock

_LOG: Final = logging.getLogger(__name__)
CLIENT: Final = "kanister-py-tls-client"
_RETRY_SECONDS: Final = 5.0


class ClientCertificate:
    """Keeps the files up to date from which functions are called."""

    def __init__(
        self,
        keeper: CertificateKeeper,
        clock: Clock,
        alarms: Alarms,
        folder: Path,
        *,
        namespace: str,
        authority: str,
        looks_every: timedelta,
        on_error: Callable[[KanisterError], None],
    ) -> None:
        self._keeper = keeper
        self._clock = clock
        self._alarms = alarms
        self._folder = folder
        self._namespace = namespace
        self._authority = authority
        self._looks_every = looks_every
        self._on_error = on_error
        self._alarm: Alarm | None = None
        self._is_closed = False

    def start(self) -> None:
        """Write the files, and look at them again and again."""
        self._look()

    def close(self) -> None:
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.call_off()

    def _look(self) -> None:
        if self._is_closed:
            return
        seconds = self._looks_every.total_seconds()
        try:
            self.renew()
        except KanisterError as error:
            seconds = _RETRY_SECONDS
            self._on_error(error)
            _LOG.warning("The certificate for calling functions: %s", error.message)
        self._alarm = self._alarms.set(seconds, self._look_aside)

    def _look_aside(self) -> None:
        # An alarm must be quick, and asking a cluster is not.
        Thread(target=self._look, name="client certificate", daemon=True).start()

    def renew(self) -> None:
        """Have the files say what the Secrets say, which are renewed if need be."""
        authority = self._keeper.keep_authority(self._namespace, self._authority)
        pair = self._keeper.keep_certificate(
            self._namespace,
            CLIENT,
            [f"kanister-py.{self._namespace}"],
            authority,
            is_client=True,
        )
        try:
            for name, text in (
                ("ca.crt", authority.bundle),
                ("tls.crt", pair.certificate),
                ("tls.key", pair.key),
            ):
                _write(self._folder / name, text)
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
            raise CertificatesUnreadable(str(self._folder), why) from error


def _write(path: Path, text: str) -> None:
    """Put a file in place whole, for nobody else's eyes; one that says the same is left."""
    with suppress(OSError):
        if path.read_text() == text:
            return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    begun = path.with_suffix(".new")
    descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    begun.replace(path)
