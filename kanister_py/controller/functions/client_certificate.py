"""Client certificate for calling functions, in a Secret and in files.

The gRPC client reads files, and the renewal of certificates writes Secrets.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.core.errors import CertificatesUnreadable
from kanister_py.files import write_atomically

CLIENT: Final = "kanister-py-tls-client"


def write_client_certificate(
    keeper: CertificateKeeper, folder: Path, namespace: str, authority_name: str
) -> None:
    """Renew the Secrets if necessary, and copy them to the files."""
    authority = keeper.ensure_authority(namespace, authority_name)
    names = [f"kanister-py.{namespace}"]
    pair = keeper.ensure_certificate(namespace, CLIENT, names, authority, is_client=True)
    try:
        for name, text in (
            ("ca.crt", authority.bundle),
            ("tls.crt", pair.certificate),
            ("tls.key", pair.key),
        ):
            _write(folder / name, text)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
        raise CertificatesUnreadable(str(folder), reason) from error


def _write(path: Path, text: str) -> None:
    """Write a file atomically and readable by its owner only, unless its content is the same."""
    with suppress(OSError):
        if path.read_text() == text:
            return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, text.encode())
