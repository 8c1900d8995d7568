# shellcheck shell=bash
# Part of make.sh: configuring and compiling.
# Uses of make.sh: say, die, setup, gxx_is_old and NEWER_GXX (packages.sh).

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
    if [[ ! ${CXX:-} ]] && gxx_is_old; then
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

# What installs without root (docs/installing.md).
package() {
  build release
  python3 tools/package/package.py --build build/release --output build/package
}
