"""Client certificate: what functions are called with, in a Secret and in files beside it.

What calls functions reads files; what renews certificates writes Secrets.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.core.errors import CertificatesUnreadable
from kanister_py.files import write_whole

CLIENT: Final = "kanister-py-tls-client"


def write_client_certificate(
    keeper: CertificateKeeper, folder: Path, namespace: str, authority_name: str
) -> None:
    """Have the files say what the Secrets say, which are renewed if need be."""
    authority = keeper.keep_authority(namespace, authority_name)
    names = [f"kanister-py.{namespace}"]
    pair = keeper.keep_certificate(namespace, CLIENT, names, authority, is_client=True)
    try:
        for name, text in (
            ("ca.crt", authority.bundle),
            ("tls.crt", pair.certificate),
            ("tls.key", pair.key),
        ):
            _write(folder / name, text)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise CertificatesUnreadable(str(folder), why) from error


def _write(path: Path, text: str) -> None:
    """Put a file in place whole, for nobody else's eyes; one that says the same is left."""
    with suppress(OSError):
        if path.read_text() == text:
            return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, text.encode())
