# The program, and Python with the package: docker run --rm -v "$PWD:/data" nextpair select --help
FROM rust:1.94-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/*
RUN pip install --break-system-packages "maturin>=1.9.4,<2"
WORKDIR /source
COPY . .
RUN maturin build --release --locked --manifest-path python/Cargo.toml --out /wheels

FROM python:3.13-slim-bookworm
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels && useradd --create-home nextpair
# GPUs are found at run time: docker run --gpus all.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER nextpair
WORKDIR /data
# The annotation app, with --host 0.0.0.0.
EXPOSE 7878
ENTRYPOINT ["nextpair"]
CMD ["--help"]
