# The proxy as an image: one virtual environment and one YAML file, without pip's or a compiler's help at run time.
# Python's minor version is pinned here, every package by its hash in the lock files (CONTRIBUTING.md renews them).

FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# What the proxy depends on, in a layer of its own: it changes far less often than the proxy.
COPY requirements.lock requirements-build.lock ./
RUN python -m venv --without-pip /opt/svir \
    && pip --python /opt/svir/bin/python install --only-binary :all: --require-hashes -r requirements.lock \
    && pip install --only-binary :all: --require-hashes -r requirements-build.lock

COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY svir_proxy svir_proxy
RUN pip wheel --no-build-isolation --no-deps --no-index --wheel-dir dist . \
    && pip --python /opt/svir/bin/python install --no-deps --no-index dist/*.whl \
    && pip --python /opt/svir/bin/python check


FROM python:3.13-slim
LABEL org.opencontainers.image.title="svir-proxy" \
      org.opencontainers.image.description="One clean Chat Completions dialect from every OpenAI-compatible model server" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/svir /opt/svir
COPY config/svir.yaml /etc/svir/svir.yaml

# The environment overrides the file. Bound to all addresses, the proxy does not start without keys (auth.keys); beside
# an application in one network namespace, set SVIR_SERVER__HOST=127.0.0.1 and none are needed.
ENV PATH=/opt/svir/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    SVIR_CONFIG=/etc/svir/svir.yaml \
    SVIR_SERVER__HOST=0.0.0.0 \
    SVIR_SERVER__PORT=8484

# By number, so that an orchestrator can see that it is not root. It owns nothing and writes nothing.
USER 10001:10001
EXPOSE 8484
# http.client, not urllib, which would ask the HTTP proxy that the environment may name.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['SVIR_SERVER__PORT']), timeout=3); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["svir-proxy"]
CMD ["serve"]
