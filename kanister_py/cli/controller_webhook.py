"""Admission webhook of the controller: its flags, and its server over TLS."""

from __future__ import annotations

import argparse
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Self

from kanister_py.cli.parser import port, repeated

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from kanister_py.core.kube.certificates import KeyPair
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.wiring import Functions

_SERVICE: Final = "kanister-py-webhook"


def add_webhook_arguments(group: Any) -> None:
    group.add_argument(
        "--webhook-port",
        type=port,
        default=0,
        metavar="PORT",
        help="judge Blueprints and ActionSets before they are stored; 0, the default, for not",
    )
    group.add_argument("--webhook-host", default="0.0.0.0", help="default: %(default)s")  # noqa: S104 - the API server calls from another machine; it is served over TLS
    group.add_argument(
        "--webhook-service",
        default=_SERVICE,
        metavar="NAME",
        help="the Service by which it is called; default: %(default)s",
    )
    repeated(
        group,
        "--webhook-name",
        dest="webhook_names",
        metavar="HOST",
        help="another name or address by which it is called; may be given several times",
    )
    group.add_argument(
        "--webhook-client-ca",
        default="",
        metavar="FILE",
        help="certificates (PEM) of whom a client must have its own; without it, nobody is asked",
    )
    group.add_argument(
        "--revisions-user",
        default="",
        metavar="USER",
        help="who alone changes the numbers of revisions, where another process composes; "
        "default: as whom this one acts",
    )
    group.add_argument(
        "--webhook-configuration",
        default="kanister-py",
        metavar="NAME",
        help="the ValidatingWebhookConfiguration that is told whom to trust; default: %(default)s",
    )


@contextmanager
def webhook_served(
    args: argparse.Namespace,
    functions: Functions,
    cluster: Cluster,
    clock: Clock,
    home: str,
    listening: socket.socket,
) -> Iterator[Callable[[], str]]:
    """Serve the webhook for as long as the block lasts, and say whether it is in trouble."""
    from kanister_py.controller.machine.certificates import CertificateKeeper
    from kanister_py.controller.machine.webhook_trust import WebhookSettings, WebhookTrust
    from kanister_py.core.blueprints.lint.context import Context
    from kanister_py.executor.check_access import own_user
    from kanister_py.executor.loading import load_function
    from kanister_py.http_api.admission import Judge, admission_app
    from kanister_py.wiring import certificates

    context = Context(functions.registry, is_strict=args.strict_versions, load=load_function)
    judge = Judge(
        cluster,
        context,
        (lambda: args.revisions_user) if args.revisions_user else cache(partial(own_user, cluster)),
        allows_other_namespaces=args.allow_cross_namespace_blueprints,
    )
    life = timedelta(seconds=args.certificate_life)
    names = (
        f"{args.webhook_service}.{home}.svc",
        f"{args.webhook_service}.{home}.svc.cluster.local",
        *args.webhook_names,
    )
    keeper = CertificateKeeper(cluster, certificates(clock), clock, life=life)
    with ExitStack() as stack:
        app = admission_app(judge)
        server = stack.enter_context(TlsServer(app, listening, args.webhook_client_ca))
        trust = WebhookTrust(
            cluster,
            keeper,
            clock,
            WebhookSettings(
                home,
                names,
                args.webhook_configuration,
                min(600.0, life.total_seconds() / 12),
            ),
            server.use,
        )
        stack.callback(trust.close)
        trust.start()
        yield lambda: trust.trouble


class TlsServer:
    """Server of an app over TLS once it has a certificate, which may change while it serves.

    Connections that stand keep the certificate they began with; each new one gets the
    newest.
    """

    def __init__(self, app: ASGIApp, listening: socket.socket, client_ca: str = "") -> None:
        self._app = app
        self._listening = listening
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        if client_ca:
            self._context.load_verify_locations(client_ca)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._lock = Lock()
        self._server: Any = None
        self._thread: Thread | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._is_closed = True
            server, thread = self._server, self._thread
        if server is not None and thread is not None:
            server.should_exit = True
            thread.join(5)

    def use(self, pair: KeyPair) -> None:
        """Show this certificate from the next connection on."""
        # The library reads keys from files alone; they are gone before a client is served.
        with tempfile.TemporaryDirectory(prefix="kanister-py-") as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            key.touch(mode=0o600)
            key.write_text(pair.key, encoding="ascii")
            certificate.write_text(pair.certificate, encoding="ascii")
            self._context.load_cert_chain(certificate, key)
        with self._lock:
            if self._server is None and not self._is_closed:
                self._start()

    def _start(self) -> None:
        import uvicorn

        from kanister_py.http_api.server import server_config

        config = server_config(self._app)
        config.load()
        config.ssl = self._context
        self._server = uvicorn.Server(config)
        self._thread = Thread(
            target=self._server.run, args=([self._listening],), name="webhook", daemon=True
        )
        self._thread.start()
