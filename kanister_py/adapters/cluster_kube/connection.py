"""Connections to an API server: kubeconfig or service account, credentials and TLS."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from kanister_py.adapters.cluster_kube.plugins import PluginCredentials, run_plugin
from kanister_py.core.errors import UsageError
from kanister_py.ports.clock import Clock

if TYPE_CHECKING:
    from kanister_py.adapters.cluster_kube.pool import ServerPool


class ClusterConfigInvalid(UsageError, reason="ClusterConfigInvalid"):
    """Error for a configuration that no cluster can be reached with."""

    def __init__(self, source: str, why: str) -> None:
        super().__init__(f"No cluster can be reached with {source}: {why}")
        self.source = source
        self.why = why


_IN_CLUSTER_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_IN_CLUSTER_TOKEN: Final = _IN_CLUSTER_NAMESPACE.with_name("token")
_HOME_CONFIG: Final = "~/.kube/config"
# Callers that need credentials within this time share one check of the files.
_CREDENTIALS_SECONDS: Final = 1.0
# Renewal may be slow, and does not help if the account itself is wrong.
_RENEWAL_SECONDS: Final = 5.0
_EXPIRY_SKEW: Final = timedelta(seconds=30)
_LOG: Final = logging.getLogger(__name__)


class ClusterChoice(NamedTuple):
    """Choice of a cluster: a kubeconfig and a context, or the cluster that this pod runs in."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    in_cluster: bool = False

    @property
    def is_in_cluster(self) -> bool:
        """Whether this is the cluster that this pod runs in.

        An explicit choice takes precedence, then the kubeconfig of the environment, then the
        cluster of this pod, then the kubeconfig in the home folder.
        """
        if self.in_cluster:
            return True
        if self.kubeconfig or self.context or os.environ.get("KUBECONFIG"):
            return False
        return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and _IN_CLUSTER_TOKEN.is_file()

    @property
    def path(self) -> str:
        return self.kubeconfig or os.environ.get("KUBECONFIG") or _HOME_CONFIG


class Connection:
    """Connection to one API server: address, TLS, renewed credentials and a connection pool."""

    def __init__(self, choice: ClusterChoice, clock: Clock, pool_size: int) -> None:
        self._choice = choice
        self._clock = clock
        self._pool_size = pool_size
        self._lock = threading.Lock()
        loaded = _configuration_of(choice, pool_size)
        self._configuration, self.default_namespace = loaded.configuration, loaded.namespace
        self._expires = loaded.expires
        # Held during a renewal; other threads continue with the old credentials.
        self._renewing = threading.Lock()
        self.pool = _pool_of(self._configuration)
        """Connections to the server, with the TLS identity of the configuration."""
        self._authorization = ""
        self._checked_until: float | None = None
        self._renewed_at = float("-inf")

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return str(self._configuration.host).rstrip("/")

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate a request. They are secret."""
        valid_until = self._checked_until
        is_fresh = valid_until is not None and self._clock.monotonic() < valid_until
        if not is_fresh and self._renewing.acquire(blocking=valid_until is None):
            try:
                self._refresh()
            finally:
                self._renewing.release()
        with self._lock:
            authorization = self._authorization
        return {"Authorization": authorization} if authorization else {}

    def _refresh(self) -> None:
        """Read the credentials again; plugins run when theirs expire."""
        with self._lock:
            if self._checked_until is not None and self._clock.monotonic() < self._checked_until:
                return
            configuration, expires = self._configuration, self._expires
        try:
            if expires is not None and self._clock.now() >= expires - _EXPIRY_SKEW:
                self._apply(_configuration_of(self._choice, self._pool_size))
                return
            authorization = _authorization_of(configuration)
        except Exception as error:  # noqa: BLE001 # the client does not wrap errors of its helpers
            # If the old credentials are no longer valid, the cluster rejects them.
            _LOG.warning("Credentials cannot be read again: %s", _one_line(error))
            authorization = self._authorization
        with self._lock:
            self._authorization = authorization
            self._checked_until = self._clock.monotonic() + _CREDENTIALS_SECONDS

    def _apply(self, loaded: _LoadedConfiguration) -> bool:
        """Use a configuration that was read again. Returns True if the identity has changed."""
        authorization = _authorization_of(loaded.configuration)
        with self._lock:
            before = self._configuration
            self._configuration, self._expires = loaded.configuration, loaded.expires
            self._authorization = authorization
            self._checked_until = self._clock.monotonic() + _CREDENTIALS_SECONDS
            has_changed = _identity_of(before) != _identity_of(loaded.configuration)
            if has_changed:
                # Connections carry the old certificate. Those in use are closed after their
                # request.
                self.pool = _pool_of(loaded.configuration)
        return has_changed

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Renew credentials that the cluster rejected. Returns True if a retry may succeed.

        Reads everything again: the token file, the output of a plugin, the certificate.
        """
        if self.headers() != dict(refused):
            return True
        with self._renewing:
            # Another thread may have renewed the credentials already.
            if self._authorization != refused.get("Authorization", ""):
                return True
            now = self._clock.monotonic()
            if now < self._renewed_at + _RENEWAL_SECONDS:
                return False
            self._renewed_at = now
            try:
                has_changed = self._apply(_configuration_of(self._choice, self._pool_size))
            except ClusterConfigInvalid:
                return False
            return has_changed or self._authorization != refused.get("Authorization", "")

    def tls(self) -> dict[str, Any]:
        """Return the TLS options of the WebSocket library."""
        configuration = self._configuration
        options: dict[str, Any] = {"cert_reqs": ssl.CERT_NONE, "check_hostname": False}
        if configuration.verify_ssl:
            options = {"cert_reqs": ssl.CERT_REQUIRED}
            if configuration.assert_hostname is not None:
                options["check_hostname"] = configuration.assert_hostname
        settings = {
            "ca_certs": configuration.ssl_ca_cert,
            "certfile": configuration.cert_file,
            "keyfile": configuration.key_file,
            "server_hostname": configuration.tls_server_name,
        }
        return {**options, **{key: value for key, value in settings.items() if value}}

    def proxy(self) -> dict[str, Any]:
        """Return the proxy settings of the WebSocket library."""
        from urllib3.connection import HTTPConnection

        proxy = self.pool.proxy
        if proxy is None:
            # Without this, the library looks for a proxy in the environment by its own rules.
            return {"http_no_proxy": ["*"]}
        setting = urlsplit(str(self._configuration.proxy))
        settings: dict[str, Any] = {
            "http_proxy_host": proxy.host,
            "http_proxy_port": proxy.port or HTTPConnection.default_port,
            "proxy_type": proxy.scheme if proxy.scheme.startswith("socks") else "http",
        }
        if setting.username:
            settings["http_proxy_auth"] = (
                unquote(setting.username),
                unquote(setting.password or ""),
            )
        return settings

    def close(self) -> None:
        self.pool.close()


class ImpersonatingConnection:
    """A connection whose requests are made on behalf of another user.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
    """

    def __init__(self, connection: Connection, user: str) -> None:
        self._connection = connection
        self._impersonation = {"Impersonate-User": user}
        self.default_namespace = connection.default_namespace
        self.tls = connection.tls
        self.proxy = connection.proxy

    @property
    def pool(self) -> ServerPool:
        return self._connection.pool

    @property
    def server(self) -> str:
        return self._connection.server

    def headers(self) -> dict[str, str]:
        return {**self._connection.headers(), **self._impersonation}

    def renew(self, refused: Mapping[str, str]) -> bool:
        own = {key: text for key, text in refused.items() if key not in self._impersonation}
        return self._connection.renew(own)

    def close(self) -> None:
        """Do nothing: the connection belongs to the cluster that this one was derived from."""


class _LoadedConfiguration(NamedTuple):
    """The client's configuration for a cluster, and the expiry of its credentials."""

    configuration: Any
    namespace: str
    expires: datetime | None = None


def _configuration_of(choice: ClusterChoice, pool_size: int) -> _LoadedConfiguration:
    """Load the configuration of the cluster. A credential plugin runs here."""
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException

    configuration = Configuration()
    expires = None
    source = "the service account of this pod" if choice.is_in_cluster else choice.path
    try:
        if choice.is_in_cluster:
            namespace = _load_in_cluster(configuration)
        else:
            namespace, expires = _load_kubeconfig(choice, configuration)
    except ConfigException as error:
        raise ClusterConfigInvalid(source, _one_line(error)) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ClusterConfigInvalid(source, f"{type(error).__name__}: {_one_line(error)}") from error
    except Exception as error:
        # The client reads YAML with a library whose errors have no common base class with PyYAML's.
        if type(error).__module__.partition(".")[0] != "yaml":
            raise
        raise ClusterConfigInvalid(source, f"it is not valid YAML: {_one_line(error)}") from error
    configuration.connection_pool_maxsize = pool_size
    # Retries are decided for every request by `Requests`.
    configuration.retries = False
    configuration.socket_options = _socket_options()
    return _LoadedConfiguration(configuration, choice.namespace or namespace or "default", expires)


def _load_in_cluster(configuration: Any) -> str:
    _loaders().load_incluster_config(client_configuration=configuration)
    if _IN_CLUSTER_NAMESPACE.is_file():
        return _IN_CLUSTER_NAMESPACE.read_text(encoding="utf-8").strip()
    return ""


def _load_kubeconfig(choice: ClusterChoice, configuration: Any) -> tuple[str, datetime | None]:
    from kubernetes.config import ConfigException

    path = choice.path
    if not any(
        Path(file_name).expanduser().is_file() for file_name in path.split(os.pathsep) if file_name
    ):
        raise ConfigException("the file does not exist")
    contexts, current = _loaders().list_kube_config_contexts(path)
    context_name = choice.context or (current or {}).get("name", "")
    matches = [context for context in contexts if context.get("name") == context_name]
    if not matches:
        names = ", ".join(sorted(str(context.get("name")) for context in contexts)) or "none"
        raise ConfigException(f"there is no context {context_name!r}; available: {names}")
    context = matches[0].get("context") or {}
    files = _loaders().kube_config.KubeConfigMerger(path)
    user = files.config["users"].get_with_name(str(context.get("user") or ""), safe=True)
    expires = None
    keep = files.save_changes
    if user is not None and "exec" in user["user"]:
        plugin_credentials = _run_plugin(files.config, user, str(context.get("cluster") or ""))
        expires = plugin_credentials.expires
        user["user"].value.pop("exec")
        user["user"].value.update(plugin_credentials.user)
        keep = None  # credentials of a plugin must not be written to a file
    loader = _loaders().kube_config.KubeConfigLoader(
        config_dict=files.config, active_context=context_name, config_persister=keep
    )
    loader.load_and_set(configuration)
    return str(context.get("namespace") or ""), expires


def _run_plugin(config: Any, user: Any, cluster: str) -> PluginCredentials:
    """Run the credential plugin of a user. Relative paths start at the folder of the kubeconfig."""
    node = config["clusters"].get_with_name(cluster)
    folder = str(Path(node.path).resolve().parent) if node.path else None
    return run_plugin(user["user"]["exec"], node["cluster"], folder)


def _loaders() -> Any:
    """Return the client's configuration loaders, which have no type annotations."""
    from kubernetes import config

    return config


def _pool_of(configuration: Any) -> ServerPool:
    from kubernetes.client.rest import RESTClientObject

    from kanister_py.adapters.cluster_kube.pool import ServerPool

    client: Any = RESTClientObject(configuration)
    return ServerPool(client.pool_manager, str(configuration.host).rstrip("/"))


def _authorization_of(configuration: Any) -> str:
    for setting in configuration.auth_settings().values():
        if str(setting.get("key", "")).lower() == "authorization" and setting.get("value"):
            # Token files often end with a newline.
            return str(setting["value"]).strip()
    return ""


def _identity_of(configuration: Any) -> tuple[object, ...]:
    def content(path: Any) -> bytes:
        try:
            return Path(path).read_bytes() if path else b""
        except OSError:
            return b""

    return (
        configuration.host,
        content(configuration.cert_file),
        content(configuration.key_file),
        content(configuration.ssl_ca_cert),
        configuration.cert_file,
    )


def _socket_options() -> list[tuple[int, int, int]]:
    """Return socket options that detect a dead peer within about half a minute."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)
        if option is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    return options


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
