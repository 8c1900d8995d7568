# shellcheck shell=bash
# Part of make.sh: the packages of the distribution.
# Uses of make.sh: EXIT_ENVIRONMENT, say, die, environment_hint.

# Debian and Ubuntu package names. RUN is what a machine that only runs a finished build needs on top of BUILD's libraries.
readonly BUILD_PACKAGES=(g++ cmake ninja-build ccache pkg-config python3 python3-venv libhdf5-dev libyaml-cpp-dev
  libspdlog-dev libcli11-dev nlohmann-json3-dev libsentencepiece-dev libpcre2-dev libicu-dev zlib1g-dev libzstd-dev libjpeg-dev
  libpng-dev libgtest-dev libgmock-dev libbenchmark-dev libpmix-dev libopenmpi-dev)
# Where g++ is older than OLDEST_GXX (Ubuntu 22.04 has 11), this package's compiler builds.
readonly OLDEST_GXX=12 NEWER_GXX=g++-12
readonly RUN_PACKAGES=(openmpi-bin)
readonly TEST_PACKAGES=(slurm-wlm munge iproute2 procps hdf5-tools shellcheck git)
# Installed where the distribution has it; elsewhere the check that needs it is skipped, with this reason.
readonly OPTIONAL_TEST_PACKAGES=(clang-tidy-14 zsh fish mandoc environment-modules)

gxx_is_old() { (($(g++ -dumpversion | cut -d. -f1) < OLDEST_GXX)); }

missing_packages() {
  local name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || echo "$name"
  done
}

# Installs those of the named packages that are missing; never starts or restarts a service of theirs.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die "$EXIT_ENVIRONMENT" "setup supports Debian 12 and Ubuntu 22.04 or newer; on other systems install the equivalents of: $*"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || die "$EXIT_ENVIRONMENT" "packages are missing; install them and run this again:
  sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}"
  say "installing ${#missing[@]} packages: ${missing[*]}"
  run_apt update
  without_service_starts run_apt install --no-install-recommends "${missing[@]}"
}

run_apt() {
  local log
  log=$(mktemp)
  if ! DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@" >"$log" 2>&1; then
    tail -n 25 "$log" >&2
    rm -f "$log"
    die "$EXIT_ENVIRONMENT" "'apt-get $1' failed (its last messages are above). $(environment_hint /var/cache/apt)"
  fi
  rm -f "$log"
}

# Those of the named packages that this distribution offers.
offered_packages() {
  local name
  for name in "$@"; do
    if apt-cache show "$name" >/dev/null 2>&1; then echo "$name"; fi
  done
}

# Slurm and munge are only programs here: the tests start their own. A policy file that is already there stays.
without_service_starts() {
  local policy=/usr/sbin/policy-rc.d
  if [[ -e $policy ]]; then
    "$@"
    return
  fi
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  "$@"
  rm -f "$policy"
  trap - EXIT
}

# What building and running need; with `test`, what the tests need too.
setup_packages() {
  local packages=("${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}")
  if [[ $1 == test ]]; then packages+=("${TEST_PACKAGES[@]}"); fi
  install_packages "${packages[@]}"
  if gxx_is_old; then install_packages $NEWER_GXX; fi
  if [[ $1 == test ]]; then
    mapfile -t packages < <(offered_packages "${OPTIONAL_TEST_PACKAGES[@]}")
    (install_packages "${packages[@]}") || say "the checks that need these packages will be skipped"
  fi
}
