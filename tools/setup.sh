# shellcheck shell=bash
# Part of make.sh: virtual environments of Python, and what comes out of its wheels.
# Uses of make.sh: EXIT_ENVIRONMENT, say, die, free_mb, environment_hint, setup_packages (packages.sh).

# libtorch: its headers and CPU libraries come out of the Python wheel; of its 4 GB of dependencies a CPU needs two. The
# others are what the headers of the CUDA runtime include.
readonly TORCH_WHEELS=(torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
  nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)
# Arrow's C++ libraries and headers, for the plugin that reads Parquet. This version has wheels for Python 3.10 to 3.13.
readonly ARROW_WHEEL=pyarrow==25.0.1
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
# The harness whose scores `echelon evaluate` is compared with, in a folder of its own. Its 15,000 files of tasks would be
# most of .venv-test: only the tasks that recipes/tasks/convert.py knows stay.
readonly LM_EVAL_PINS=tests/support/requirements_lm_eval.txt LM_EVAL=.venv-test/lm_eval
readonly LM_EVAL_TASKS='arc|gsm8k|hellaswag|mmlu|piqa'
# Wheels that are only read: for the chat templates in them.
readonly TEMPLATES_PINS=tests/support/requirements_templates.txt TEMPLATES=.venv-test/templates

# The images of tests/scripts/digits.py are one file of scikit-learn's wheel, which is taken out of it.
readonly DIGITS_WHEEL=scikit-learn==1.7.2 DIGITS_SOURCE=data/digits.csv.gz

# The first Python with venv support for which the pinned wheels exist.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import ensurepip, sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "$EXIT_ENVIRONMENT" "no Python 3.10 to 3.13 with venv support found (package python3-venv): the libtorch wheel has no build for others"
}

site_packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# run_pip VENV COMMAND WHAT ARGUMENT...: without dependencies, because every package is named and pinned. WHAT it was to
# install or download is for the message.
run_pip() {
  "$1/bin/python" -m pip "$2" --disable-pip-version-check --quiet --no-deps "${@:4}" ||
    die "$EXIT_ENVIRONMENT" "pip could not $2 $3 (its messages are above). $(environment_hint .)"
}

# must_load VENV WHAT MODULES: the modules can be imported.
must_load() {
  "$1/bin/python" -c "import $3" ||
    die "$EXIT_ENVIRONMENT" "$2 (message above): remove $1 and run this again"
}

# fill_venv FOLDER STAMP_TEXT DISK_MB FINISH PIP_ARGUMENTS...: a venv with exactly these packages. The function FINISH adds
# what pip cannot, and checks. STAMP_TEXT is written into the venv when it is complete, so a finished one costs nothing and
# an interrupted or outdated one is completed.
fill_venv() {
  local folder=$1 stamp_text=$2 disk_mb=$3 finish=$4
  shift 4
  [[ $(cat "$folder/.echelon-stamp" 2>/dev/null) == "$stamp_text" && -x $folder/bin/python ]] && return
  if ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    (($(free_mb .) > disk_mb)) ||
      die "$EXIT_ENVIRONMENT" "$folder needs $disk_mb MB on $PWD's disk, $(free_mb .) MB are free"
    local python
    python=$(find_python)
    rm -rf "$folder"
    "$python" -m venv "$folder"
  fi
  say "filling $folder: $*"
  run_pip "$folder" install "$*" "$@"
  "$finish"
  printf '%s\n' "$stamp_text" >"$folder/.echelon-stamp"
}

check_torch() {
  local torch
  torch=$(site_packages .venv)/torch
  [[ -e $torch/lib/libtorch_cpu.so && -e $torch/include/ATen/ATen.h ]] ||
    die "$EXIT_ENVIRONMENT" "the torch wheel in .venv is incomplete: remove .venv and run this again"
}

setup_torch() {
  fill_venv .venv "${TORCH_WHEELS[*]}" $TORCH_DISK_MB check_torch "${TORCH_WHEELS[@]}"
  check_torch  # of a venv that was filled earlier, too
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
  run_pip .venv install "${pins[*]}" "${pins[@]}"
  if ldd "$gpu_half" | grep 'not found' >&2; then
    die "$EXIT_ENVIRONMENT" "libtorch_cuda.so still lacks the libraries above, which $CUDA_PINS should name"
  fi
}

# 55 MB that only Parquet sources of `echelon prepare` need: without them everything else is built and works.
setup_arrow() {
  [[ ! -e $(site_packages .venv)/${ARROW_WHEEL/==/-}.dist-info ]] || return 0
  say "installing Arrow's libraries: $ARROW_WHEEL"
  if .venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps "$ARROW_WHEEL"; then
    touch .venv/.echelon-stamp  # configure() looks for changes of it
  else
    say "Parquet is left out: pip could not install $ARROW_WHEEL (its messages are above)"
  fi
}

# fill_folder FOLDER PINS: packages that a test puts before those of .venv-test.
fill_folder() {
  rm -rf "$1"
  run_pip .venv-test install "$2" --target "$1" -r "$2"
}

# Independent implementations the tests compare with (h5py, safetensors, transformers, ...). Its torch is .venv's.
setup_oracles() {
  local stamp
  stamp="$PWD/.venv $(cat "$ORACLE_PINS" "$TRANSFORMERS5_PINS" "$READERS_PINS" "$TEMPLATES_PINS" "$LM_EVAL_PINS" tests/support/torch_on_cpu.*)"
  fill_venv .venv-test "$stamp" $ORACLES_DISK_MB finish_oracles -r "$ORACLE_PINS"
}

finish_oracles() {
  fill_folder "$TRANSFORMERS5" "$TRANSFORMERS5_PINS"
  fill_folder "$READERS" "$READERS_PINS"
  fill_folder "$LM_EVAL" "$LM_EVAL_PINS"
  find "$LM_EVAL/lm_eval/tasks" -mindepth 1 -maxdepth 1 -type d -regextype egrep ! -regex ".*/($LM_EVAL_TASKS)" -exec rm -r {} +
  run_pip .venv-test download "what $TEMPLATES_PINS lists" --only-binary :all: --dest "$TEMPLATES" --requirement "$TEMPLATES_PINS"
  tests/support/torch_on_cpu.sh "$(site_packages .venv-test)" "$(site_packages .venv)"
  must_load .venv-test 'the packages in .venv-test do not load' 'h5py, numpy, safetensors, torch, transformers'
  PYTHONPATH=$TRANSFORMERS5 must_load .venv-test "the packages in $TRANSFORMERS5 do not load" transformers
}

setup_cluster_checks() {
  # --no-compile: most of its modules are never loaded.
  fill_venv .venv-cluster "$(cat "$CLUSTER_PINS")" $CLUSTER_CHECKS_DISK_MB finish_cluster_checks --no-compile -r "$CLUSTER_PINS"
}

finish_cluster_checks() {
  must_load .venv-cluster 'the packages in .venv-cluster do not load' 'cfnlint, moto, pcluster.schemas.cluster_schema, prometheus_client'
}

# A peer that only benchmarks know. It has no wheel, and its set-up needs a torch to import: .venv-test's, which it uses.
setup_deepspeed() {
  fill_venv .venv-deepspeed "$PWD/.venv-test $(cat "$DEEPSPEED_PINS")" $CLUSTER_CHECKS_DISK_MB finish_deepspeed \
    setuptools==80.9.0 wheel==0.45.1
}

finish_deepspeed() {
  local site
  site=$(site_packages .venv-deepspeed)
  echo "import site; site.addsitedir('$(site_packages .venv-test)')" >"$site/zz-venv-test.pth"
  DS_BUILD_OPS=0 run_pip .venv-deepspeed install "$DEEPSPEED_PINS" --no-build-isolation -r "$DEEPSPEED_PINS"
  must_load .venv-deepspeed 'deepspeed does not load' deepspeed
}

fetch_digits() {
  [[ -e $DIGITS_SOURCE ]] && return
  say "fetching scikit-learn's digits: $DIGITS_SOURCE out of $DIGITS_WHEEL"
  local folder
  folder=$(mktemp -d)
  run_pip .venv download "$DIGITS_WHEEL" --only-binary :all: --dest "$folder" "$DIGITS_WHEEL"
  .venv/bin/python -m zipfile -e "$folder"/*.whl "$folder"
  mkdir -p "$(dirname "$DIGITS_SOURCE")"
  cp "$folder/sklearn/datasets/data/digits.csv.gz" "$DIGITS_SOURCE.tmp"
  mv "$DIGITS_SOURCE.tmp" "$DIGITS_SOURCE"
  rm -rf "$folder"
}

# What training needs; with `test`, the packages of the tests too.
setup_to_train() {
  setup_packages "${1:-run}"
  setup_torch
  setup_cuda
}

setup() {
  case ${1:-run} in
    run | test) ;;
    *) die 2 "setup: expected no argument or 'test', got '$1'" ;;
  esac
  setup_to_train "${1:-run}"
  setup_arrow
  if [[ ${1:-run} == test ]]; then
    setup_oracles
    setup_cluster_checks
    fetch_digits
  fi
}
