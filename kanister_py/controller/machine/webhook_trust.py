"""Trust in the webhook: certificates by which the API server knows this replica, and renewals.

An authority of our own signs the webhook's certificate; both live in Secrets that all
replicas share. Whatever the API server must trust is written into the configuration of
the webhook before a certificate that needs it is used: nobody meets a stranger.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.controller.machine.periodic import PeriodicTask
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.certificates import KeyPair
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, PatchType, find

_LOG: Final = logging.getLogger(__name__)

CONFIGURATIONS: Final = GroupVersionResource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"
)
_SECRET: Final = "kanister-py-webhook"  # noqa: S105 - the name of a Secret, not its content
_LOOK_SECONDS: Final = 600.0
_AGAIN_SECONDS: Final = 5.0


class WebhookSettings(NamedTuple):
    """Where the Secrets are, by which names the API server calls, and who names us to it."""

    namespace: str
    names: tuple[str, ...]
    configuration: str = "kanister-py"
    """Empty if this process serves no webhook."""
    secret: str = _SECRET
    """Secret of the certificate. That of its authority is called `<secret>-authority`."""
    look_seconds: float = _LOOK_SECONDS


class WebhookTrust:
    """Certificate of the webhook, kept good, and the API server's trust in it."""

    def __init__(
        self,
        cluster: Cluster,
        keeper: CertificateKeeper,
        clock: Clock,
        settings: WebhookSettings,
        use: Callable[[KeyPair], None],
    ) -> None:
        self._cluster = cluster
        self._keeper = keeper
        self._settings = settings
        self._use = use
        self._used: KeyPair | None = None
        self._trouble = "has no certificate yet"
        # A replica that has a certificate goes on with it; the next look may do better.
        self._looking = PeriodicTask(
            clock=clock,
            what="the webhook's certificate",
            act=self.look,
            every_seconds=settings.look_seconds,
            retry_seconds=_AGAIN_SECONDS,
            on_error=self._note,
            level=logging.WARNING,
        )

    def start(self) -> None:
        self._looking.start()

    def close(self) -> None:
        self._looking.close()

    def check(self) -> str:
        """Return why there is no certificate, or nothing."""
        return self._trouble if self._used is None else ""

    def look(self) -> None:
        """Renew what must be renewed, have it trusted, then use it."""
        settings = self._settings
        authority = self._keeper.keep_authority(settings.namespace, f"{settings.secret}-authority")
        if settings.configuration:
            self._have_trusted(authority.bundle)
        pair = self._keeper.keep_certificate(
            settings.namespace, settings.secret, settings.names, authority
        )
        if pair != self._used:
            self._use(pair)
            self._used = pair

    def _have_trusted(self, bundle: str) -> None:
        name = self._settings.configuration
        configuration = find(self._cluster, CONFIGURATIONS, name)
        if configuration is None:
            # It may come later, with the chart that is being installed.
            _LOG.info("ValidatingWebhookConfiguration %s is not there: nobody asks us", name)
            return
        encoded = base64.b64encode(bundle.encode()).decode()
        webhooks = configuration.get("webhooks") or ()
        stale = _stale(webhooks, encoded)
        if not stale:
            return
        patch = [
            # Should another client have changed the list meanwhile, the next look does it.
            {
                "op": "test",
                "path": "/metadata/resourceVersion",
                "value": configuration["metadata"]["resourceVersion"],
            },
            *(
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded}
                for index in stale
            ),
        ]
        self._cluster.patch(CONFIGURATIONS, name, patch, patch_type=PatchType.JSON)
        _LOG.info("The API server trusts the webhook's authority now")

    def _note(self, error: KanisterError) -> None:
        self._trouble = error.message


def _stale(webhooks: Sequence[dict[str, object]], wanted: str) -> list[int]:
    clients = [webhook.get("clientConfig") for webhook in webhooks]
    return [
        index
        for index, client in enumerate(clients)
        if isinstance(client, dict) and client.get("caBundle") != wanted
    ]
