#!/usr/bin/env bash
# The one script: sets up, builds, runs and checks Echelon. `./make.sh help` lists what it does.
# Every command does all set-up it needs first; what is there already is left alone. Here is what all parts share; each
# part in tools/ holds some of the commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# Modules of a site set these; then pip takes the site's packages for those of a venv, which stays without them.
unset PYTHONPATH PYTHONHOME
export PIP_USER=0

readonly EXIT_ENVIRONMENT=3

say() { printf '\n==> %s\n' "$*"; }

die() {
  local code=$1
  shift
  printf 'make.sh: %s\n' "$*" >&2
  exit "$code"
}

free_mb() { df -Pm "$1" | awk 'NR == 2 { print $4 }'; }

environment_hint() {
  echo "Usual causes: no network or proxy setting that reaches the package registry, or a full disk ($(free_mb "$1") MB free for $1)."
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
  package          make build/package: a release folder, a tarball and a wheel of it, which install without root
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

source tools/packages.sh
source tools/setup.sh
source tools/build.sh
source tools/quickstart.sh
source tools/test.sh

main() {
  local command=${1:-help}
  (($#)) && shift
  case $command in
    setup | build | package | quickstart | digits | bench | drills | format) "$command" "$@" ;;
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
