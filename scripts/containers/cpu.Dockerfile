# blocklearn for machines without a GPU. From the root of the repository:
#
#     docker build --file scripts/containers/cpu.Dockerfile --tag blocklearn .
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
ARG EXTRAS=hdfs,remote
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[$EXTRAS]" && rm -r /wheels \
    && useradd --create-home --uid 10001 learn && install --directory --owner learn /work
USER learn
WORKDIR /work
ENTRYPOINT ["learn"]
