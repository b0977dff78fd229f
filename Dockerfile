# One image for both jobs: `recsys-attn run ...` trains, `recsys-attn serve ...` scores over gRPC and REST.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MPLCONFIGDIR=/tmp/matplotlib

# As the first process of a container it hands signals on, which end one that still loads too.
RUN apt-get update && apt-get install --yes --no-install-recommends tini && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 recsys
WORKDIR /app

# The dependencies are a layer of their own: a change of the code does not install them again.
COPY pyproject.toml constraints.txt /source/
RUN python -c "import tomllib; project = tomllib.load(open('/source/pyproject.toml', 'rb'))['project']; print(*project['dependencies'], *project['optional-dependencies']['redis'], sep='\n')" \
      > /source/requirements.txt \
    && pip install --no-cache-dir --disable-pip-version-check \
      -c /source/constraints.txt -r /source/requirements.txt

COPY README.md LICENSE /source/
COPY recsys_attn /source/recsys_attn
COPY pipelines /source/pipelines
COPY serving /source/serving
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps /source \
    && rm -rf /source \
    && install -d -o recsys -g recsys runs
COPY experiments experiments

USER recsys
VOLUME /app/runs
EXPOSE 8500 8501

# The standard gRPC health service answers SERVING once a model is loaded.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import grpc; from grpc_health.v1 import health_pb2, health_pb2_grpc; stub = health_pb2_grpc.HealthStub(grpc.insecure_channel('localhost:8500')); reply = stub.Check(health_pb2.HealthCheckRequest(), timeout=4); raise SystemExit(reply.status != health_pb2.HealthCheckResponse.SERVING)"]

ENTRYPOINT ["tini", "--", "recsys-attn"]
CMD ["--help"]
