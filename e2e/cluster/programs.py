"""Programs of a test cluster, built once per version from the Go module proxy.

Programs that are not written in Go come from npm or Maven, also once per version.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

KUBERNETES: Final = ("kube-apiserver", "kube-controller-manager", "kubectl")

KNOWN_VERSIONS: Final = ("v1.37.1", "v1.36.3", "v1.35.4", "v1.34.4", "v1.33.13")
"""One release of each minor, newest first; the newest that this machine's Go builds is taken."""

ETCD_VERSIONS: Final = ("v3.7.3", "v3.6.4")
ACTIONLINT_VERSION: Final = "v1.7.7"
HELM_VERSIONS: Final = ("v3.22.0", "v3.18.6")
VERSITYGW_VERSION: Final = "v1.8.0"
FAKE_GCS_VERSION: Final = "v1.56.1"
PATCH_AND_TRANSFORM_VERSION: Final = "v0.5.0"
"""The newest that the module proxy has whole."""
AZURITE_VERSION: Final = "3.37.0"
AXE_VERSION: Final = "4.14.0"
OPENSEARCH_VERSION: Final = "2.19.6"

_MODULE: Final = "k8s.io/kubernetes"
_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?$")
_STAGED: Final = re.compile(r"^\s*(?:replace\s+)?(\S+) => \./staging/", re.MULTILINE)
_GO_LINE: Final = re.compile(r"^go (\S+)$", re.MULTILINE)


class GoMissing(Exception):
    """Go is not installed."""


class NpmMissing(Exception):
    """npm is not installed."""


class MavenMissing(Exception):
    """Maven or Java is not installed."""


class BuildFailed(Exception):
    """Go, npm or Maven could not build a program."""


class Programs(NamedTuple):
    """Paths of the programs of a cluster, and their Kubernetes version."""

    version: str
    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubectl: Path


def cache_folder() -> Path:
    """Folder for programs that can be built again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kanister-py"


def find_programs(version: str = "") -> Programs:
    """Return the programs of a cluster, building them if necessary.

    `KUBEBUILDER_ASSETS` can name a folder with existing programs; missing ones are built in
    the same version. Raises `GoMissing` or `BuildFailed`.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and not version:
        return _complete(Path(assets))
    if version:
        return _build_cluster(_release_of(version))
    return _first_that_builds("Kubernetes", KNOWN_VERSIONS, _build_cluster)


def find_helm() -> Path:
    """Return the path of Helm, building it if necessary."""
    return _first_that_builds("Helm", HELM_VERSIONS, _build_helm)


def find_actionlint() -> Path:
    """Return the path of the linter for GitHub workflows, building it if necessary."""
    module = "github.com/rhysd/actionlint"
    required = f"require {module} {ACTIONLINT_VERSION}\n"
    target = f"actionlint-{ACTIONLINT_VERSION}"
    folder = _build_all(
        target, ["actionlint"], required, [f"{module}/cmd/actionlint"], flags="-s -w"
    )
    return folder / "actionlint"


def find_etcd() -> tuple[Path, Path]:
    """Return the path of etcd and the folder of its client programs, building them if necessary."""
    return _find_etcd(), _first_that_builds("etcdctl", ETCD_VERSIONS, _build_etcd_clients)


def etcd_is_built() -> bool:
    """Return whether etcd and its client programs are built."""
    programs = cache_folder() / "programs"
    return any(
        (programs / f"etcd-clients-{etcd_version}" / "etcdutl").exists()
        for etcd_version in ETCD_VERSIONS
    )


def find_versitygw() -> Path:
    """Return the path of the S3 server, building it if necessary."""
    return _build_server("versitygw", "github.com/versity/versitygw", VERSITYGW_VERSION)


def find_fake_gcs() -> Path:
    """Return the path of the server for Google Cloud Storage, building it if necessary."""
    return _build_server("fake-gcs-server", "github.com/fsouza/fake-gcs-server", FAKE_GCS_VERSION)


def find_patch_and_transform() -> Path:
    """Return the path of an original composition function in Go, building it if necessary."""
    name = "function-patch-and-transform"
    module = f"github.com/crossplane-contrib/{name}"
    return _build_server(name, module, PATCH_AND_TRANSFORM_VERSION)


def find_azurite() -> Path:
    """Return the path of the server for Azure, installing it if necessary."""
    return _installed("azurite", AZURITE_VERSION, ".bin/azurite-blob")


def find_axe() -> Path:
    """Return the path of the script that checks pages for accessibility."""
    return _installed("axe-core", AXE_VERSION, "axe-core/axe.min.js")


def _installed(name: str, version: str, file: str) -> Path:
    """Install a package from npm if necessary, and return the path of one of its files."""
    target = cache_folder() / "programs" / f"{name}-{version}"
    script = target / "node_modules" / file
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        if script.exists():
            return script
        npm = shutil.which("npm")
        if npm is None:
            raise NpmMissing("there is no npm on this machine")
        quiet = ("--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts")
        done = subprocess.run(
            [npm, "install", *quiet, "--prefix", str(target), f"{name}@{version}"],
            cwd=target,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildFailed("\n".join(done.stderr.splitlines()[-20:]) or "npm install failed")
    return script


def find_opensearch() -> Path:
    """Return the path of the OpenSearch server, assembling it if necessary.

    It consists of the released jars in the layout of a distribution, with the usual main class.
    """
    target = _opensearch_folder()
    if opensearch_is_built():
        return target / "opensearch"
    mvn = shutil.which("mvn")
    if mvn is None or shutil.which("java") is None:
        raise MavenMissing("there is no Maven, or no Java, on this machine")
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        if opensearch_is_built():
            return target / "opensearch"
        jars = target / "jars"
        (target / "pom.xml").write_text(_pom_of(_OPENSEARCH_JARS), encoding="utf-8")
        # Wrong checksums are errors.
        quiet = ("--batch-mode", "--quiet", "--strict-checksums", f"--file={target / 'pom.xml'}")
        done = subprocess.run(
            [
                mvn,
                *quiet,
                f"-Dmaven.repo.local={cache_folder() / 'maven'}",
                _COPY_JARS,
                f"-DoutputDirectory={jars}",
            ],
            cwd=target,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildFailed("\n".join(done.stdout.splitlines()[-20:]) or "mvn failed")
        for name, text in _OPENSEARCH_FILES.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, encoding="utf-8")
        (target / "opensearch").chmod(0o755)
        for path in sorted(jars.iterdir()):
            if path.name.startswith(("netty-", "transport-netty4")):
                path.replace(target / _MODULE_OF_HTTP / path.name)
        # `lib` is created last, so its existence means that everything is complete.
        jars.replace(target / "lib")
    return target / "opensearch"


def opensearch_is_built() -> bool:
    """Return whether the OpenSearch server is assembled."""
    return (_opensearch_folder() / "lib").is_dir()


def _opensearch_folder() -> Path:
    return cache_folder() / "programs" / f"opensearch-{OPENSEARCH_VERSION}"


_COPY_JARS: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_OPENSEARCH_JARS: Final = {
    "org.opensearch:opensearch": OPENSEARCH_VERSION,
    "org.opensearch:opensearch-plugin-classloader": OPENSEARCH_VERSION,
    "org.opensearch.plugin:transport-netty4-client": OPENSEARCH_VERSION,
    # As the server's own log4j-api.
    "org.apache.logging.log4j:log4j-core": "2.25.4",
}
_MODULE_OF_HTTP: Final = "modules/transport-netty4"
_OPENSEARCH_FILES: Final = {
    # Without its native code the server cannot detect that it runs as root, which it refuses. It
    # writes into its configuration folder.
    "opensearch": """\
#!/bin/sh
home=$(dirname "$(readlink -f "$0")")
conf=$(mktemp -d)
cp "$home"/config/* "$conf"
exec java -Xms256m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \\
  -Djava.security.manager=allow -Djna.nosys=true -Djna.nounpack=true \\
  -Dopensearch.path.home="$home" -Dopensearch.path.conf="$conf" \\
  -Dopensearch.distribution.type=tar -cp "$home/lib/*" org.opensearch.bootstrap.OpenSearch "$@"
""",
    "config/opensearch.yml": "",
    "config/log4j2.properties": """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
""",
    f"{_MODULE_OF_HTTP}/plugin-descriptor.properties": f"""\
name=transport-netty4
description=Netty 4 based transport
classname=org.opensearch.transport.Netty4Plugin
java.version=11
version={OPENSEARCH_VERSION}
opensearch.version={OPENSEARCH_VERSION}
extended.plugins=
has.native.controller=false
""",
    f"{_MODULE_OF_HTTP}/plugin-security.policy": """\
grant { permission java.security.AllPermission; };
""",
}


def _pom_of(jars: Mapping[str, str]) -> str:
    """Write a Maven project whose only purpose is to depend on jars."""
    dependencies = "".join(
        f"<dependency><groupId>{name.partition(':')[0]}</groupId>"
        f"<artifactId>{name.partition(':')[2]}</artifactId>"
        f"<version>{version}</version></dependency>\n"
        for name, version in jars.items()
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kanister-py</groupId>"
        "<artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def stores_are_built() -> bool:
    """Return whether all object store servers are built."""
    programs = cache_folder() / "programs"
    return (
        (programs / f"versitygw-{VERSITYGW_VERSION}" / "versitygw").exists()
        and (programs / f"fake-gcs-server-{FAKE_GCS_VERSION}" / "fake-gcs-server").exists()
        and (programs / f"azurite-{AZURITE_VERSION}" / "node_modules").exists()
    )


def _build_server(name: str, module: str, version: str) -> Path:
    package = f"{module}/cmd/{name}" if name == "versitygw" else module
    required = f"require {module} {version}\n"
    folder = _build_all(f"{name}-{version}", [name], required, [package], flags="-s -w")
    return folder / name


def _first_that_builds(name: str, versions: Sequence[str], build: Callable[[str], T]) -> T:
    """Build the newest version that the installed Go supports."""
    *newer, oldest = versions
    for release in newer:
        try:
            return build(release)
        except BuildFailed as error:
            print(f"{name} {release} cannot be built here: {error}", file=sys.stderr)
    return build(oldest)


def _complete(assets: Path) -> Programs:
    """Use the programs of an existing folder, and build the missing ones."""
    output = subprocess.run(
        [assets / "kube-apiserver", "--version"], capture_output=True, text=True, check=True
    ).stdout
    version = output.split()[-1]

    def find(name: str) -> Path:
        program = assets / name
        return program if program.exists() else _build_kubernetes(version) / name

    etcd = assets / "etcd"
    return Programs(
        version, etcd if etcd.exists() else _find_etcd(), *(find(name) for name in KUBERNETES)
    )


def _build_cluster(version: str) -> Programs:
    folder = _build_kubernetes(version)
    return Programs(version, _find_etcd(), *(folder / name for name in KUBERNETES))


def _build_kubernetes(version: str) -> Path:
    """Build Kubernetes as released, with the staging modules of the same release."""
    match = _RELEASE.match(version)
    if match is None or match[3] is None:
        raise BuildFailed(f"{version} is no release such as {KNOWN_VERSIONS[0]}")
    target = f"kubernetes-{version}"
    if folder_with_programs := _found(target, KUBERNETES):
        return folder_with_programs
    published = _published_module(version)
    staged = "".join(
        f"replace {module} => {module} v0.{match[2]}.{match[3]}\n"
        for module in sorted(set(_STAGED.findall(published)))
    )
    stamp = {"gitVersion": version, "gitMajor": match[1], "gitMinor": match[2]}
    return _build_all(
        target,
        KUBERNETES,
        f"require {_MODULE} {version}\n{staged}",
        [f"{_MODULE}/cmd/{name}" for name in KUBERNETES],
        flags=" ".join(
            ["-s -w", *(f"-X k8s.io/component-base/version.{k}={v}" for k, v in stamp.items())]
        ),
        language=_language_of(published),
    )


def _find_etcd() -> Path:
    return _first_that_builds("etcd", ETCD_VERSIONS, _build_etcd)


def _build_etcd(version: str) -> Path:
    folder = _build_all(
        f"etcd-{version}",
        ["etcd"],
        f"require go.etcd.io/etcd/server/v3 {version}\n",
        ["go.etcd.io/etcd/server/v3"],
        flags="-s -w",
    )
    return folder / "etcd"


def _build_etcd_clients(version: str) -> Path:
    names = ["etcdctl", "etcdutl"]
    modules = [f"go.etcd.io/etcd/{name}/v3" for name in names]
    required = "".join(f"require {module} {version}\n" for module in modules)
    return _build_all(f"etcd-clients-{version}", names, required, modules, flags="-s -w")


def _build_helm(version: str) -> Path:
    folder = _build_all(
        f"helm-{version}",
        ["helm"],
        f"require helm.sh/helm/v3 {version}\n",
        ["helm.sh/helm/v3/cmd/helm"],
        flags=f"-s -w -X helm.sh/helm/v3/internal/version.version={version}",
    )
    return folder / "helm"


def _release_of(version: str) -> str:
    """Return the release for `1.36` or `v1.36.3`; for a minor version, the latest patch."""
    match = _RELEASE.match(version)
    if match is None:
        raise BuildFailed(f"{version} is no version such as 1.36 or {KNOWN_VERSIONS[0]}")
    if match[3] is not None:
        return "v" + version.removeprefix("v")
    minor = f"v{match[1]}.{match[2]}."
    listed = _go("list", "-m", "-versions", _MODULE, cwd=cache_folder()).split()[1:]
    matching = {version for version in (*listed, *KNOWN_VERSIONS) if version.startswith(minor)}
    released = [candidate for candidate in matching if candidate.removeprefix(minor).isdigit()]
    if not released:
        raise BuildFailed(f"the module proxy has no release of Kubernetes {version}")
    return max(released, key=lambda release_version: int(release_version.removeprefix(minor)))


def _published_module(version: str) -> str:
    """Read the go.mod of a release of Kubernetes."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    path = _go("mod", "download", "-json", f"{_MODULE}@{version}", cwd=cache_folder()).partition(
        '"GoMod": "'
    )[2]
    return Path(path.partition('"')[0]).read_text(encoding="utf-8")


def _language_of(module: str) -> str:
    match = _GO_LINE.search(module)
    return match[1] if match else ""


def _found(target: str, names: Sequence[str]) -> Path | None:
    folder = cache_folder() / "programs" / target
    return folder if all((folder / name).exists() for name in names) else None


def _build_all(
    target: str,
    names: Sequence[str],
    module: str,
    packages: Sequence[str],
    *,
    flags: str,
    language: str = "",
) -> Path:
    """Build programs into a folder of the cache if necessary."""
    if folder_with_programs := _found(target, names):
        return folder_with_programs
    folder = cache_folder() / "programs" / target
    source = cache_folder() / "sources" / target
    for stale in (folder, source):
        stale.mkdir(parents=True, exist_ok=True)
    with _alone(source):
        if folder_with_programs := _found(target, names):
            return folder_with_programs
        started = time.monotonic()
        print(f"{target}: built once, which takes minutes …", file=sys.stderr, flush=True)
        language = language or _go("env", "GOVERSION", cwd=source).strip().removeprefix("go")
        (source / "go.mod").write_text(
            f"module kanister-py.io/e2e\n\ngo {language}\n\n{module}", encoding="utf-8"
        )
        built = source / "built"
        built.mkdir(exist_ok=True)
        output = f"{built}/" if len(names) > 1 else str(built / names[0])
        _go("build", "-ldflags", flags, "-o", output, *packages, cwd=source)
        for name in names:
            # Rename at the end, so that other processes never see an incomplete folder.
            (built / name).replace(folder / name)
        print(f"{target}: built in {time.monotonic() - started:.0f}s", file=sys.stderr, flush=True)
    return folder


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock for a build, so that only one process builds it."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _go(*words: str, cwd: Path) -> str:
    """Run Go with low priority and return its output."""
    go = shutil.which("go")
    if go is None:
        raise GoMissing("there is no Go on this machine")
    nice = shutil.which("nice")
    done = subprocess.run(
        [*([nice, "-n", "10"] if nice else []), go, *words],
        cwd=cwd,
        env=_environment(go),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        errors = [
            line for line in done.stderr.splitlines() if not line.startswith("go: downloading")
        ]
        raise BuildFailed("\n".join(errors[-20:]) or f"go {words[0]} failed")
    return done.stdout


def _environment(go: str) -> dict[str, str]:
    """Return an environment in which Go writes only to our cache and uses only the module proxy."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(cache_folder() / "go-build"),
        "GOFLAGS": "-buildvcs=false -mod=mod -modcacherw -trimpath",
        "GOMODCACHE": str(cache_folder() / "go-modules"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    # If a proxy does not have a module, Go would contact its repository directly.
    output = subprocess.run(
        [go, "env", "GOPROXY"], capture_output=True, text=True, check=True
    ).stdout
    proxies = output.strip().replace("|", ",").split(",")
    return {
        **environment,
        "GOPROXY": ",".join(proxy for proxy in proxies if proxy != "direct") or "off",
    }
