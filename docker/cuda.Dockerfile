# syntax=docker/dockerfile:1.7
# Echelon for NVIDIA GPUs, with EFA. From the top of the repository, two targets (docs/containers.md):
#
#   docker build -f docker/cuda.Dockerfile --target runtime -t echelon:cuda .
#   docker build -f docker/cuda.Dockerfile --target build   -t echelon:cuda-build .

# The toolkit is used in the first stage only: its CUDA 13.0.2 is that of libtorch's wheels, which bring the libraries.
ARG BUILD_BASE=nvidia/cuda:13.0.2-devel-ubuntu24.04@sha256:5dc1bca23d05bd37b011be68ec470c03b403a5da07ec3a86e41af9470e9d0cc6
ARG BASE=ubuntu:24.04@sha256:786a8b558f7be160c6c8c4a54f9a57274f3b4fb1491cf65146521ae77ff1dc54

# ---- build: compilers, the CUDA toolkit, libtorch with CUDA, the sources ------------------------------------------------
FROM ${BUILD_BASE} AS build
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
WORKDIR /src
COPY make.sh ./
COPY tools tools
RUN ./make.sh setup
COPY docker/requirements_cuda.txt docker/
RUN .venv/bin/python -m pip install --no-cache-dir --no-deps -r docker/requirements_cuda.txt
COPY . .
RUN packages=$(echo "$PWD"/.venv/lib/python3*/site-packages) \
    && cmake --preset cuda -DNCCL_INCLUDE_DIR="$packages/nvidia/nccl/include" \
      -DNCCL_LIBRARY="$packages/nvidia/nccl/lib/libnccl.so.2" \
    && cmake --build --preset cuda --target echelon echelon-ckpt echelon_cuda echelon_parquet -j "$(nproc)" \
    && docker/collect.sh build/cuda "$packages" /opt/echelon

# ---- efa: libfabric and the NCCL plugin for AWS's network -------------------------------------------------------------
# Without the plugin in the image NCCL falls back to TCP, ten times slower and without a word.
FROM ${BASE} AS efa
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ARG EFA_VERSION=1.49.0
# AWS's key for this installer, as its documentation prints it.
ARG EFA_KEY=4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC
ARG EFA_URL=https://efa-installer.amazonaws.com
WORKDIR /tmp/efa
# hadolint ignore=DL3003,DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl gnupg \
    && curl -fsSLO "$EFA_URL/aws-efa-installer.key" \
    && curl -fsSLO "$EFA_URL/aws-efa-installer-$EFA_VERSION.tar.gz" \
    && curl -fsSLO "$EFA_URL/aws-efa-installer-$EFA_VERSION.tar.gz.sig" \
    && gpg --import aws-efa-installer.key \
    && gpg --status-fd 1 --verify "aws-efa-installer-$EFA_VERSION.tar.gz.sig" | grep "VALIDSIG.* $EFA_KEY" \
    && tar -xzf "aws-efa-installer-$EFA_VERSION.tar.gz" \
    && cd aws-efa-installer \
    && ./efa_installer.sh --yes --skip-kmod --skip-limit-conf --no-verify \
    && rm -rf /opt/amazon/openmpi* /tmp/efa/* /var/lib/apt/lists/*

# ---- runtime: two programs and what they load -----------------------------------------------------------------------
FROM efa AS runtime
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
COPY --from=build /opt/echelon /opt/echelon
# hadolint ignore=DL3008
RUN apt-get update \
    && xargs -a /opt/echelon/packages.txt apt-get install -y --no-install-recommends openmpi-bin \
    && rm -rf /var/lib/apt/lists/* \
    && mv /opt/echelon/ld.so.conf /etc/ld.so.conf.d/echelon.conf \
    && ldconfig \
    && useradd --create-home --home-dir /var/lib/echelon --uid 1001 echelon \
    && /opt/echelon/bin/echelon --version | grep libtorch
ENV PATH=/opt/echelon/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV PMIX_MCA_psec=native PMIX_MCA_gds=hash
# What the container runtime puts in: the host's driver and all GPUs.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# An error where EFA is missing, instead of a silent fall back to TCP. On machines without EFA: -e FI_PROVIDER=.
ENV FI_PROVIDER=efa
USER 1001:1001
WORKDIR /var/lib/echelon
ENTRYPOINT ["echelon"]
CMD ["--help"]
