# syntax=docker/dockerfile:1.7
# Echelon for CPUs. From the top of the repository, three targets (docs/containers.md):
#
#   docker build -f docker/cpu.Dockerfile --target runtime    -t echelon:cpu .
#   docker build -f docker/cpu.Dockerfile --target slurm-node -t echelon:slurm-node .
#   docker build -f docker/cpu.Dockerfile --target build      -t echelon:build .

# 12.12 of September 2025. The digest decides, the tag is for people.
ARG BASE=debian:12.12-slim@sha256:d5d3f9c23164ea16f31852f95bd5959aad1c5e854332fe00f7b3a20fcc9f635c

# ---- build: compilers, libtorch, the sources -----------------------------------------------------------------------
FROM ${BASE} AS build
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
WORKDIR /src
# The slow part first and alone: it is repeated only when make.sh or tools, which name every package and version, change.
COPY make.sh ./
COPY tools tools
RUN ./make.sh setup
COPY . .
RUN cmake --preset release -DECHELON_CUDA=OFF \
    && cmake --build --preset release --target echelon echelon-ckpt echelon_parquet -j "$(nproc)" \
    && docker/collect.sh build/release "$(echo .venv/lib/python3*/site-packages)" /opt/echelon

# ---- runtime: two programs and what they load -----------------------------------------------------------------------
FROM ${BASE} AS runtime
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
COPY --from=build /opt/echelon /opt/echelon
# openmpi-bin: mpirun for `echelon train --ranks N`, with the MPI and PMIx that ranks load. Debian's packages change within a release only to mend faults, and
# old versions leave its archive; so they are not pinned, but the base image and all wheels are.
# hadolint ignore=DL3008
RUN apt-get update \
    && xargs -a /opt/echelon/packages.txt apt-get install -y --no-install-recommends openmpi-bin ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && mv /opt/echelon/ld.so.conf /etc/ld.so.conf.d/echelon.conf \
    && ldconfig \
    && useradd --create-home --home-dir /var/lib/echelon --uid 1000 echelon \
    && /opt/echelon/bin/echelon --version | grep libtorch
ENV PATH=/opt/echelon/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# The host's PMIx server must accept a client whose libraries differ: docs/containers.md.
ENV PMIX_MCA_psec=native PMIX_MCA_gds=hash
USER 1000:1000
WORKDIR /var/lib/echelon
ENTRYPOINT ["echelon"]
CMD ["--help"]

# ---- slurm-node: the runtime in a Slurm cluster of several nodes on one machine, for tests ------------------------------
FROM runtime AS slurm-node
# slurmd starts steps as their users and slurm.sh makes network namespaces: both need root, and `docker run --privileged`.
# hadolint ignore=DL3002
USER 0:0
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends slurm-wlm munge libpmix-dev iproute2 procps \
    && rm -rf /var/lib/apt/lists/*
COPY cluster/local /opt/echelon/cluster/local
COPY cluster/slurm /opt/echelon/cluster/slurm
COPY recipes /opt/echelon/recipes
ENV ECHELON_BIN=/opt/echelon/bin/echelon
# Open MPI refuses root unless told; in here there is nobody else.
ENV OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
WORKDIR /work
ENTRYPOINT ["/opt/echelon/cluster/local/slurm.sh"]
CMD ["run", "4", "--", "srun", "--nodes=4", "--ntasks-per-node=2", "--mpi=pmix", "/opt/echelon/bin/echelon", "doctor", "bootstrap"]
