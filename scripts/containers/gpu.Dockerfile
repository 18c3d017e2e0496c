# blocklearn for servers with NVIDIA GPUs: drivers of CUDA 12 with the extra gpu, of CUDA 13 with gpu13. The driver comes
# from the host, the other libraries of CUDA from wheels. From the root of the repository:
#
#     docker build --file scripts/containers/gpu.Dockerfile --tag blocklearn:gpu .
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
ARG EXTRAS=gpu,hdfs,remote
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[$EXTRAS]" && rm -r /wheels \
    && useradd --create-home --uid 10001 learn && install --directory --owner learn /work
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER learn
WORKDIR /work
ENTRYPOINT ["learn"]
