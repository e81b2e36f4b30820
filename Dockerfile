# Images of operator, controller, sidecar and spark: one file, one target each.
#   scripts/images build        builds all with docker, podman or buildah, whichever is there
# What runs is a virtual environment that uv.lock pins; uv and the sources stay behind in the build stages.
# COMMIT is what `--version` of the programs names, VERSION the label; scripts/images sets both.
# The same commit and base give the same bytes: compiled files carry no times, and scripts/images sets the times of files.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS tools
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check uv==0.13.8
ENV PYC_INVALIDATION_MODE=UNCHECKED_HASH \
    PYTHONHASHSEED=0 \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    UV_PROJECT_ENVIRONMENT=/opt/rocketmq-ha \
    UV_PYTHON_DOWNLOADS=never
# uv notes the time of each build beside a package.
RUN printf '%s\n' '#!/bin/sh -e' \
    'find /opt/rocketmq-ha "(" -name uv_cache.json -o -name .lock ")" -delete' \
    'find /opt/rocketmq-ha -name RECORD -exec sed -i /uv_cache.json/d {} +' > /opt/uv/bin/without-times \
    && chmod +x /opt/uv/bin/without-times
WORKDIR /src
COPY pyproject.toml uv.lock ./
COPY controller_core/pyproject.toml controller_core/
COPY ha_sidecar/pyproject.toml ha_sidecar/
COPY operator/pyproject.toml operator/
COPY spark/pyproject.toml spark/
COPY tests/pyproject.toml tests/
COPY tools/pyproject.toml tools/

# Each member's dependencies come before its sources: a change of the sources does not fetch them again.
FROM tools AS build-operator
RUN /opt/uv/bin/uv sync --quiet --frozen --no-dev --no-install-workspace --package rocketmq-ha-operator
COPY controller_core controller_core
COPY operator operator
RUN /opt/uv/bin/uv sync --quiet --frozen --no-dev --no-editable --package rocketmq-ha-operator \
    && /opt/uv/bin/without-times

FROM tools AS build-controller
RUN /opt/uv/bin/uv sync --quiet --frozen --no-dev --no-install-workspace --package rocketmq-controller-core
COPY controller_core controller_core
RUN /opt/uv/bin/uv sync --quiet --frozen --no-dev --no-editable --package rocketmq-controller-core \
    && /opt/uv/bin/without-times

FROM tools AS build-sidecar
RUN /opt/uv/bin/uv sync --quiet --frozen --no-dev --no-install-workspace --package rocketmq-ha-sidecar
COPY controller_core controller_core
COPY ha_sidecar ha_sidecar
RUN /opt/uv/bin/uv sync --quiet --frozen --no-dev --no-editable --package rocketmq-ha-sidecar \
    && /opt/uv/bin/without-times

FROM tools AS build-spark
RUN /opt/uv/bin/uv sync --quiet --frozen --no-dev --no-install-workspace --package rocketmq-slo-pipeline
COPY controller_core controller_core
COPY spark spark
RUN /opt/uv/bin/uv sync --quiet --frozen --no-dev --no-editable --package rocketmq-slo-pipeline \
    && /opt/uv/bin/without-times

# The user's number is the one that the operator and the chart run pods as.
FROM ${BASE} AS runtime
# useradd writes today's date, or that of SOURCE_DATE_EPOCH, to /etc/shadow.
ARG SOURCE_DATE_EPOCH
RUN groupadd --gid 10001 rocketmq-ha && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp rocketmq-ha
ENV PATH=/opt/rocketmq-ha/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /tmp

FROM runtime AS operator
COPY --from=build-operator /opt/rocketmq-ha /opt/rocketmq-ha
ARG COMMIT=unknown
ENV ROCKETMQ_HA_COMMIT=$COMMIT
ARG VERSION=unknown
LABEL org.opencontainers.image.title="The operator: RocketMQ broker groups on Kubernetes" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$COMMIT
ENTRYPOINT ["rocketmq-operator"]
CMD ["run"]

FROM runtime AS controller
COPY --from=build-controller /opt/rocketmq-ha /opt/rocketmq-ha
ARG COMMIT=unknown
ENV ROCKETMQ_HA_COMMIT=$COMMIT
ARG VERSION=unknown
LABEL org.opencontainers.image.title="controller-core: replicated controllers for RocketMQ brokers" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$COMMIT
ENTRYPOINT ["controller-core"]

FROM runtime AS sidecar
COPY --from=build-sidecar /opt/rocketmq-ha /opt/rocketmq-ha
ARG COMMIT=unknown
ENV ROCKETMQ_HA_COMMIT=$COMMIT
ARG VERSION=unknown
LABEL org.opencontainers.image.title="ha-sidecar: log replicas and companions of RocketMQ brokers" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$COMMIT
ENTRYPOINT ["ha-sidecar"]

FROM runtime AS spark
USER 0:0
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/*.log /var/cache/ldconfig/aux-cache
USER 10001:10001
COPY --from=build-spark /opt/rocketmq-ha /opt/rocketmq-ha
ARG COMMIT=unknown
ENV ROCKETMQ_HA_COMMIT=$COMMIT
ARG VERSION=unknown
LABEL org.opencontainers.image.title="slo-pipeline: canaries, collectors and reports" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$COMMIT
ENTRYPOINT ["slo-pipeline"]
