# The tools of blueprints that move data: bash, restic, kando, and PostgreSQL's own programs.
# docker buildx build --platform linux/amd64,linux/arm64 -f deploy/tools.Dockerfile .
ARG PYTHON=3.13.7-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE CHANGELOG.md versions.yaml ./
COPY kanister_py kanister_py
# Wheels only: a package that would have to be compiled is an error, not a compiler in here.
RUN python -m venv /opt/kanister-py \
    && pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && /opt/kanister-py/bin/pip install --no-cache-dir --only-binary=:all: /wheels/*.whl \
    && /opt/kanister-py/bin/python -m compileall -q /opt/kanister-py/lib \
    && /opt/kanister-py/bin/pip uninstall --yes pip

FROM python:${PYTHON}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bash ca-certificates gzip postgresql-client restic \
    && rm -rf /var/lib/apt/lists/* \
    && pip uninstall --yes --root-user-action=ignore pip
COPY --from=build /opt/kanister-py /opt/kanister-py
RUN ln -s /opt/kanister-py/bin/kando /usr/local/bin/kando
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Data of volumes belongs to whom it belongs: a podOverride says whether that is root.
CMD ["bash", "-c", "tail -f /dev/null"]
