#!/usr/bin/env bash
# The one script: sets up, builds, runs and checks Echelon. `./make.sh help` lists what it does.
# Every command does all set-up it needs first; what is there already is left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly EXIT_ENVIRONMENT=3 EXIT_REQUEUE=85

# Debian and Ubuntu package names. RUN is what a machine that only runs a finished build needs on top of BUILD's libraries.
readonly BUILD_PACKAGES=(g++ cmake ninja-build ccache pkg-config python3 python3-venv libhdf5-dev libyaml-cpp-dev
  libspdlog-dev libcli11-dev nlohmann-json3-dev libsentencepiece-dev libpcre2-dev libicu-dev zlib1g-dev libzstd-dev libjpeg-dev
  libpng-dev libgtest-dev libgmock-dev libbenchmark-dev libpmix-dev libopenmpi-dev)
# Where g++ is older than OLDEST_GXX (Ubuntu 22.04 has 11), this package's compiler builds.
readonly OLDEST_GXX=12 NEWER_GXX=g++-12
readonly RUN_PACKAGES=(openmpi-bin)
readonly TEST_PACKAGES=(slurm-wlm munge iproute2 procps hdf5-tools shellcheck git)
# Installed where the distribution has it; elsewhere the check that needs it is skipped, with this reason.
readonly OPTIONAL_TEST_PACKAGES=(clang-tidy-14)

# libtorch: its headers and CPU libraries come out of the Python wheel; of its 4 GB of dependencies a CPU needs two. The
# others are what the headers of the CUDA runtime include.
readonly TORCH_WHEELS=(torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
  nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)
# Where nvcc is, those of torch's CUDA libraries that the machine lacks.
readonly CUDA_PINS=docker/requirements_cuda.txt
readonly TORCH_DISK_MB=4000 ORACLES_DISK_MB=1000 CLUSTER_CHECKS_DISK_MB=500
readonly ORACLE_PINS=tests/support/requirements.txt
# AWS's own checks of cluster configurations and templates, and a linter for Dockerfiles.
readonly CLUSTER_PINS=tests/support/requirements_cluster.txt
# DeepSpeed and what it needs beside the packages of the tests; ./make.sh bench --setup-deepspeed installs it.
readonly DEEPSPEED_PINS=tests/support/requirements_deepspeed.txt
# A second transformers, for exports: in a folder of its own that a test puts before the first one.
readonly TRANSFORMERS5_PINS=tests/support/requirements_transformers5.txt TRANSFORMERS5=.venv-test/transformers5
# Readers of metrics, in a folder of their own.
readonly READERS_PINS=tests/support/requirements_readers.txt READERS=.venv-test/readers
# Wheels that are only read: for the chat templates in them.
readonly TEMPLATES_PINS=tests/support/requirements_templates.txt TEMPLATES=.venv-test/templates

# The images of tests/scripts/digits.py are one file of scikit-learn's wheel, which is taken out of it.
readonly DIGITS_WHEEL=scikit-learn==1.7.2 DIGITS_SOURCE=data/digits.csv.gz DIGITS_DATA=data/digits

readonly TEST_LOGS=build/test
readonly QUICKSTART_RECIPE=recipes/quickstart.yaml QUICKSTART_DATA=data/quickstart QUICKSTART_RUN=runs/quickstart
readonly QUICKSTART_WEIGHTS=$QUICKSTART_RUN/safetensors
QUICKSTART_TRAIN=(build/release/bin/echelon train "$QUICKSTART_RECIPE" --ranks 2)

say() { printf '\n==> %s\n' "$*"; }

die() {
  local code=$1
  shift
  printf 'make.sh: %s\n' "$*" >&2
  exit "$code"
}

help() {
  cat <<'TEXT'
usage: ./make.sh COMMAND

  quickstart       prepare data, train on two local ranks, stop and resume, verify, export, sample
  digits           prepare scikit-learn's handwritten digits as images to train on, in data/digits
  test [--long]    build everything and run every test and check; logs in build/test. --long: sweeps take every case,
                   not a share of each kind
  setup [test]     install what building and running need (with `test`: what the tests need too)
  build [PRESET] [TARGET]...
                   compile the programs, or what is named (`all`: the tests too); PRESET is release (default), dev,
                   asan, tsan or cuda; binaries land in build/PRESET/bin
  bench [NAME]...  measure Echelon beside its peers; `bench list` names the benchmarks, --quick takes some 25 minutes,
                   --publish puts the results on docs/benchmarks.md (`bench --help` lists the options)
  gpu-bundle       make build/gpu-bundle and an archive of it: all that is needed to test the GPU half on a machine
                   with a GPU and a Python with torch; device.sh in it runs the tests (docs/gpu.md)
  drills [NAME]... kill, cut off, stop and slow parts of a job on a local Slurm cluster, and check that it recovers;
                   `drills list` names the drills, `--record` writes docs/drills.md; needs root
  format           format all C++ sources in place
  help             this text

Each command sets up and builds what it needs first. Exit code 3: something is missing that it could not install.
TEXT
}

# ---- set-up ---------------------------------------------------------------------------------------------------------

missing_packages() {
  local name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || echo "$name"
  done
}

# Installs those of the named packages that are missing; never starts or restarts a service of theirs.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die $EXIT_ENVIRONMENT "setup supports Debian 12 and Ubuntu 22.04 or newer; on other systems install the equivalents of: $*"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || die $EXIT_ENVIRONMENT "packages are missing; install them and run this again:
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
    die $EXIT_ENVIRONMENT "'apt-get $1' failed (its last messages are above). $(environment_hint /var/cache/apt)"
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

free_mb() { df -Pm "$1" | awk 'NR == 2 { print $4 }'; }

environment_hint() {
  echo "Usual causes: no network or proxy setting that reaches the package registry, or a full disk ($(free_mb "$1") MB free for $1)."
}

# The first Python with venv support for which the pinned wheels exist.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import ensurepip, sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die $EXIT_ENVIRONMENT "no Python 3.10 to 3.13 with venv support found (package python3-venv): the libtorch wheel has no build for others"
}

# make_venv FOLDER STAMP_TEXT DISK_MB PIP_ARGUMENTS...: a venv with exactly these packages. STAMP_TEXT is written into
# the venv when it is complete, so a finished one costs nothing and an interrupted or outdated one is completed.
make_venv() {
  local folder=$1 stamp_text=$2 disk_mb=$3
  shift 3
  [[ $(cat "$folder/.echelon-stamp" 2>/dev/null) == "$stamp_text" && -x $folder/bin/python ]] && return
  if ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    (($(free_mb .) > disk_mb)) ||
      die $EXIT_ENVIRONMENT "$folder needs $disk_mb MB on $PWD's disk, $(free_mb .) MB are free"
    local python
    python=$(find_python)
    rm -rf "$folder"
    "$python" -m venv "$folder"
  fi
  say "filling $folder: $*"
  "$folder/bin/python" -m pip install --disable-pip-version-check --quiet --no-deps "$@" ||
    die $EXIT_ENVIRONMENT "pip could not install $* (its messages are above). $(environment_hint .)"
}

stamp_venv() { printf '%s\n' "$2" >"$1/.echelon-stamp"; }

site_packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

setup_torch() {
  local stamp="${TORCH_WHEELS[*]}"
  make_venv .venv "$stamp" $TORCH_DISK_MB "${TORCH_WHEELS[@]}"
  local torch
  torch=$(site_packages .venv)/torch
  [[ -e $torch/lib/libtorch_cpu.so && -e $torch/include/ATen/ATen.h ]] ||
    die $EXIT_ENVIRONMENT "the torch wheel in .venv is incomplete: remove .venv and run this again"
  stamp_venv .venv "$stamp"
}

# GPU code is built where nvcc is, and loads all that torch's GPU half loads. What the loader finds (a toolkit's own
# libraries, those of an earlier call) stays; nothing is installed twice.
setup_cuda() {
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || return 0
  [[ -e $CUDA_PINS ]] || return 0
  local gpu_half lacking pins
  gpu_half=$(site_packages .venv)/torch/lib/libtorch_cuda.so
  mapfile -t lacking < <(ldd "$gpu_half" | awk '/not found/ { sub(/\.so.*/, "", $1); print $1 }')
  ((${#lacking[@]})) || return 0
  # A line of the pins ends with the libraries of its package.
  mapfile -t pins < <(printf '%s\n' "${lacking[@]}" | grep -wFf - "$CUDA_PINS" | sed 's/ *#.*//')
  say "installing what libtorch_cuda.so lacks (${lacking[*]}): ${pins[*]}"
  .venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps "${pins[@]}" ||
    die $EXIT_ENVIRONMENT "pip could not install ${pins[*]} (its messages are above). $(environment_hint .)"
  if ldd "$gpu_half" | grep 'not found' >&2; then
    die $EXIT_ENVIRONMENT "libtorch_cuda.so still lacks the libraries above, which $CUDA_PINS should name"
  fi
}

# fill_folder FOLDER PINS: packages that a test puts before those of .venv-test.
fill_folder() {
  rm -rf "$1"
  .venv-test/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --target "$1" -r "$2" ||
    die $EXIT_ENVIRONMENT "pip could not install $2 (its messages are above). $(environment_hint .)"
}

# Independent implementations the tests compare with (h5py, safetensors, transformers, ...). Its torch is .venv's.
setup_oracles() {
  local stamp
  stamp="$PWD/.venv $(cat "$ORACLE_PINS" "$TRANSFORMERS5_PINS" "$READERS_PINS" "$TEMPLATES_PINS" tests/support/torch_on_cpu.*)"
  make_venv .venv-test "$stamp" $ORACLES_DISK_MB -r "$ORACLE_PINS"
  [[ $(cat .venv-test/.echelon-stamp 2>/dev/null) == "$stamp" ]] && return
  fill_folder "$TRANSFORMERS5" "$TRANSFORMERS5_PINS"
  fill_folder "$READERS" "$READERS_PINS"
  .venv-test/bin/python -m pip download --disable-pip-version-check --quiet --no-deps --only-binary :all: \
    --dest "$TEMPLATES" --requirement "$TEMPLATES_PINS" ||
    die $EXIT_ENVIRONMENT "pip could not download what $TEMPLATES_PINS lists (its messages are above). $(environment_hint .)"
  tests/support/torch_on_cpu.sh "$(site_packages .venv-test)" "$(site_packages .venv)"
  .venv-test/bin/python -c 'import h5py, numpy, safetensors, torch, transformers' ||
    die $EXIT_ENVIRONMENT "the packages in .venv-test do not load (message above): remove .venv-test and run this again"
  PYTHONPATH=$TRANSFORMERS5 .venv-test/bin/python -c 'import transformers' ||
    die $EXIT_ENVIRONMENT "the packages in $TRANSFORMERS5 do not load (message above): remove .venv-test and run this again"
  stamp_venv .venv-test "$stamp"
}

setup_cluster_checks() {
  local stamp
  stamp=$(cat "$CLUSTER_PINS")
  # --no-compile: most of its modules are never loaded.
  make_venv .venv-cluster "$stamp" $CLUSTER_CHECKS_DISK_MB --no-compile -r "$CLUSTER_PINS"
  [[ $(cat .venv-cluster/.echelon-stamp 2>/dev/null) == "$stamp" ]] && return
  .venv-cluster/bin/python -c 'import cfnlint, moto, pcluster.schemas.cluster_schema, prometheus_client' ||
    die $EXIT_ENVIRONMENT "the packages in .venv-cluster do not load (message above): remove .venv-cluster and run this again"
  stamp_venv .venv-cluster "$stamp"
}

# A peer that only benchmarks know. It has no wheel, and its set-up needs a torch to import: .venv-test's, which it uses.
setup_deepspeed() {
  local site stamp
  stamp="$PWD/.venv-test $(cat "$DEEPSPEED_PINS")"
  make_venv .venv-deepspeed "$stamp" $CLUSTER_CHECKS_DISK_MB setuptools==80.9.0 wheel==0.45.1
  [[ $(cat .venv-deepspeed/.echelon-stamp 2>/dev/null) == "$stamp" ]] && return
  site=$(site_packages .venv-deepspeed)
  echo "import site; site.addsitedir('$(site_packages .venv-test)')" >"$site/zz-venv-test.pth"
  DS_BUILD_OPS=0 .venv-deepspeed/bin/python -m pip install --disable-pip-version-check --quiet --no-deps \
    --no-build-isolation -r "$DEEPSPEED_PINS" ||
    die $EXIT_ENVIRONMENT "pip could not install $DEEPSPEED_PINS (its messages are above). $(environment_hint .)"
  .venv-deepspeed/bin/python -c 'import deepspeed' ||
    die $EXIT_ENVIRONMENT "deepspeed does not load (message above): remove .venv-deepspeed and run this again"
  stamp_venv .venv-deepspeed "$stamp"
}

fetch_digits() {
  [[ -e $DIGITS_SOURCE ]] && return
  say "fetching scikit-learn's digits: $DIGITS_SOURCE out of $DIGITS_WHEEL"
  local folder
  folder=$(mktemp -d)
  .venv/bin/python -m pip download --disable-pip-version-check --quiet --no-deps --only-binary :all: \
    --dest "$folder" "$DIGITS_WHEEL" ||
    die $EXIT_ENVIRONMENT "pip could not download $DIGITS_WHEEL (its messages are above). $(environment_hint .)"
  .venv/bin/python -m zipfile -e "$folder"/*.whl "$folder"
  mkdir -p "$(dirname "$DIGITS_SOURCE")"
  cp "$folder/sklearn/datasets/data/digits.csv.gz" "$DIGITS_SOURCE.tmp"
  mv "$DIGITS_SOURCE.tmp" "$DIGITS_SOURCE"
  rm -rf "$folder"
}

setup() {
  local packages=("${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}")
  case ${1:-run} in
    run) ;;
    test) packages+=("${TEST_PACKAGES[@]}") ;;
    *) die 2 "setup: expected no argument or 'test', got '$1'" ;;
  esac
  install_packages "${packages[@]}"
  if (($(g++ -dumpversion | cut -d. -f1) < OLDEST_GXX)); then install_packages $NEWER_GXX; fi
  if [[ ${1:-run} == test ]]; then
    mapfile -t packages < <(offered_packages "${OPTIONAL_TEST_PACKAGES[@]}")
    install_packages "${packages[@]}"
  fi
  setup_torch
  setup_cuda
  if [[ ${1:-run} == test ]]; then
    setup_oracles
    setup_cluster_checks
    fetch_digits
  fi
}

# ---- build ----------------------------------------------------------------------------------------------------------

# One compile job per core, but no more than memory carries: a file that includes libtorch takes 1.5 GB.
build_jobs() {
  local by_memory
  by_memory=$(awk '/^MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
  [[ $by_memory =~ ^[0-9]+$ ]] || by_memory=1
  local cores
  cores=$(nproc)
  echo $((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
}

# Configures once, and again when a venv was filled (which tests exist depends on it); for a changed CMake file ninja
# does it by itself.
configure() {
  local folder=build/$1 venv
  # A folder made in another place (a moved clone) is of no use to CMake.
  grep -qsx "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$folder/CMakeCache.txt" || rm -rf "$folder"
  for venv in .venv .venv-test .venv-cluster; do
    if [[ $venv/.echelon-stamp -nt $folder/build.ninja ]]; then rm -f "$folder/build.ninja"; fi
  done
  if [[ ! -e $folder/build.ninja ]]; then
    local settings=()
    if [[ ! ${CXX:-} ]] && (($(g++ -dumpversion | cut -d. -f1) < OLDEST_GXX)); then
      settings+=("-DCMAKE_CXX_COMPILER=$NEWER_GXX")
    fi
    if [[ ${CI:-} ]]; then settings+=(-DECHELON_WERROR=ON); fi
    cmake --preset "$1" "${settings[@]}"
  fi
}

# compile PRESET TARGET...: what the compiler says is shown where it fails.
compile() {
  local preset=$1 started=$SECONDS
  say "building preset $preset"
  configure "$preset"
  shown_by_progress "build/$preset/build.log" cmake --build --preset "$preset" -j "$(build_jobs)" --target "${@:2}"
  echo "  built in $((SECONDS - started)) s"
}

# Runs a build of ninja: one line that is written over on a terminal, elsewhere one for every hundred steps.
shown_by_progress() {
  local log=$1
  shift
  if [[ -t 1 ]]; then
    "$@"
    return
  fi
  "$@" 2>&1 | tee "$log" | { grep --line-buffered -E '^\[[0-9]*00/' || true; } && return
  grep -vE '^\[[0-9]+/[0-9]+\] ' "$log" | tail -n 100 >&2
  die 1 "the build failed (the compiler's messages are above, all of them in $log)"
}

build() {
  setup
  local preset=${1:-release}
  (($# == 0)) || shift
  compile "$preset" "${@:-product}"
}

# ---- quickstart -----------------------------------------------------------------------------------------------------

echelon() { build/release/bin/echelon "$@"; }
echelon_ckpt() { build/release/bin/echelon-ckpt "$@"; }

quickstart_data() {
  say "preparing data: the Python sources inside the torch package, as text"
  echelon prepare "$(site_packages .venv)/torch" --format code --include '*.py' \
    --output "$QUICKSTART_DATA" --train-tokenizer 4096
}

logged_lines() { wc -l 2>/dev/null <"$QUICKSTART_RUN/metrics.jsonl" || echo 0; }

# Starts the run and takes it down as Slurm does on preemption (SIGTERM) once it has logged three lines.
# It must then save and leave with the exit code that asks for another turn.
quickstart_preempted_train() {
  "${QUICKSTART_TRAIN[@]}" &
  local pid=$! code=0
  while kill -0 $pid 2>/dev/null && (($(logged_lines) < 3)); do sleep 0.2; done
  kill -TERM $pid 2>/dev/null || true
  wait $pid || code=$?
  ((code == EXIT_REQUEUE)) ||
    die 1 "the stopped run exited with code $code, expected $EXIT_REQUEUE (see docs/exit_codes.md and $QUICKSTART_RUN/logs)"
}

quickstart() {
  build release
  quickstart_data
  if [[ ! -e $QUICKSTART_RUN/metrics.jsonl ]]; then
    say "training on two local ranks; it gets a SIGTERM after a few steps, as in a preemption by Slurm"
    quickstart_preempted_train
    say "it saved and exited with code $EXIT_REQUEUE; the same command resumes it"
  else
    say "training on two local ranks"
  fi
  "${QUICKSTART_TRAIN[@]}"
  say "checking every byte of the newest checkpoint"
  echelon_ckpt verify --deep "$QUICKSTART_RUN"
  say "writing its weights as safetensors, in the form that transformers opens"
  rm -rf "$QUICKSTART_WEIGHTS"
  echelon_ckpt consolidate "$QUICKSTART_RUN" --to safetensors --output "$QUICKSTART_WEIGHTS"
  say "sampling from it"
  echelon sample "$QUICKSTART_RUN" --prompt 'def forward(self, x):'
  say "done: data in $QUICKSTART_DATA, the run in $QUICKSTART_RUN (metrics.jsonl, checkpoints/, logs/), weights in $QUICKSTART_WEIGHTS"
}

digits() {
  setup
  fetch_digits
  .venv/bin/python tests/scripts/digits.py --source "$DIGITS_SOURCE" --output "$DIGITS_DATA"
}

# ---- test, bench, format --------------------------------------------------------------------------------------------

sources() { find src checkpoints_tool tests -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort; }

# run_ctest STAGE CTEST_ARGUMENT...: one stage of the tests; a failure lets the others go on.
run_ctest() { python3 tests/support/run_ctest.py run "$TEST_LOGS" "$@" || failed=1; }

# ThreadSanitizer over what has threads and no libtorch; the sweeps, which look for other faults, are left out. It keeps
# memory at fixed places, so that some kernels start it without randomised addresses only.
test_threads() {
  local fixed=()
  compile tsan threads
  if ! build/tsan/bin/unit_comm --gtest_list_tests >/dev/null 2>&1; then
    fixed=(setarch -R)
    if ! "${fixed[@]}" build/tsan/bin/unit_comm --gtest_list_tests >/dev/null 2>&1; then
      say "tests under ThreadSanitizer: SKIPPED, it does not start with this kernel's randomised addresses (vm.mmap_rnd_bits)"
      return
    fi
  fi
  say "tests under ThreadSanitizer"
  "${fixed[@]}" env ECHELON_TEST_SCHEDULES=3 python3 tests/support/run_ctest.py run "$TEST_LOGS" threads --preset tsan -j2 \
    -E 'LeftOut|_NOT_BUILT$' -R '^(comm|liveness|data|gpu\.runtime)\.|^checkpoint\.(Writer|Reader|Shard|Commit\.|Ranks/(RoundTrip|BulkRead)|BulkReadOverlaps|Journal)' ||
    failed=1
}

# Everything, once: what needs no libtorch under the sanitizers, the rest, and what the sanitizers cannot run, optimised.
# The release preset compiles and links the GPU code where nvcc is. CTest's summary is the last thing printed.
test_all() {
  case ${1:-} in
    '') ;;
    --long) export ECHELON_TEST_LONG=1 ECHELON_TEST_SCHEDULES=${ECHELON_TEST_SCHEDULES:-200} ;;
    *) die 2 "test takes nothing or '--long', not '$1'" ;;
  esac
  setup test
  local failed=0 again stages=(sanitizers threads optimised)
  rm -rf "$TEST_LOGS"
  compile asan all
  say "tests under AddressSanitizer and UBSan"
  run_ctest sanitizers --preset asan -j2 -LE '^(lint|slurm|dist|python)$'
  test_threads
  compile release tested
  again=$(python3 tests/support/run_ctest.py skipped "$TEST_LOGS" sanitizers)
  if [[ $again ]]; then
    say "tests that the sanitizers cannot run"
    run_ctest unsanitized --preset release -j2 -R "$again"
    stages=(sanitizers threads unsanitized optimised)
  fi
  say "tests of the optimised build"
  # Three places on two cores: one is for the Slurm tests, which come one after the other and mostly wait.
  run_ctest optimised --preset release -j3 -LE '^(unit_torch_free|fuzz)$' -E '_NOT_BUILT$'
  python3 tests/support/run_ctest.py report "$TEST_LOGS" "${stages[@]}" || failed=1
  return $failed
}

# What only shows or documents needs no build; what measures is built, with the peers' packages.
bench() {
  case " $* " in
    " list " | *" --page "* | *" --publish "* | *" --help "* | *" -h "*)
      python3 tests/bench/bench.py "$@"
      return
      ;;
    " --setup-deepspeed ")
      setup_oracles
      setup_deepspeed
      return
      ;;
  esac
  setup test
  compile release product benchmarks
  .venv-test/bin/python tests/bench/bench.py "$@"
}

gpu_bundle() {
  build cuda product gpu_kernels gpu_reduce gpu_ops dist_comm_nccl
  python3 tests/gpu/device/bundle.py --build build/cuda --output build/gpu-bundle
}

drills() {
  if [[ ${1:-} == list ]]; then
    python3 tests/drills/drills.py list
    return
  fi
  install_packages "${TEST_PACKAGES[@]}"
  build release
  # Beside other local clusters, those of the tests too.
  export ECHELON_SLURM_DIR=${ECHELON_SLURM_DIR:-/var/lib/echelon-slurm-drills} ECHELON_SLURM_NET=${ECHELON_SLURM_NET:-10.83.0}
  cluster/local/slurm.sh run 4 -- python3 tests/drills/drills.py "$@"
}

format() {
  setup_oracles
  sources | xargs .venv-test/bin/clang-format -i
}

main() {
  local command=${1:-help}
  (($#)) && shift
  case $command in
    setup | build | quickstart | digits | bench | drills | format) "$command" "$@" ;;
    test) test_all "$@" ;;
    gpu-bundle) gpu_bundle ;;
    help | -h | --help) help ;;
    *)
      help >&2
      die 2 "unknown command '$command'"
      ;;
  esac
}

main "$@"
