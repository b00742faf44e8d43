# Tools for blueprints that move data: bash, restic, kando and the PostgreSQL client programs.
# docker buildx build --platform linux/amd64,linux/arm64 -f deploy/tools.Dockerfile .
ARG PYTHON=3.13.7-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /source
COPY deploy/requirements.lock deploy/build.lock deploy/sbom.py deploy/
# Install only wheels that match the hashes in the lock files. Packages that would have to be compiled
# are an error.
RUN python -m venv /opt/kanister-py \
    && pip install --no-cache-dir --only-binary=:all: --require-hashes -r deploy/build.lock \
    && /opt/kanister-py/bin/pip install --no-cache-dir --only-binary=:all: --require-hashes \
        -r deploy/requirements.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md versions.yaml ./
COPY kanister_py kanister_py
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
    && /opt/kanister-py/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
    && /opt/kanister-py/bin/pip check \
    && /opt/kanister-py/bin/python -m compileall -q /opt/kanister-py/lib \
    && /opt/kanister-py/bin/pip uninstall --yes pip \
    && /opt/kanister-py/bin/python deploy/sbom.py deploy/requirements.lock \
        >/opt/kanister-py/sbom.cdx.json

FROM python:${PYTHON}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bash ca-certificates gzip postgresql-client restic \
    && rm -rf /var/lib/apt/lists/* \
    && pip uninstall --yes --root-user-action=ignore pip
COPY --from=build /opt/kanister-py /opt/kanister-py
RUN ln -s /opt/kanister-py/bin/kando /usr/local/bin/kando
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Runs as root unless a podOverride sets another user, because volumes contain files of any owner.
CMD ["bash", "-c", "tail -f /dev/null"]
