# shellcheck shell=bash
# Part of make.sh: configuring and compiling.
# Uses of make.sh: say, die, setup, gxx_is_old and NEWER_GXX (packages.sh).

# The least of what is free and of what the control groups of this shell allow (a container, a Slurm job).
memory_kb() {
  local controllers group folder file bytes least
  least=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
  [[ $least =~ ^[0-9]+$ ]] || least=0
  while IFS=: read -r _ controllers group; do
    case $controllers in
      '') folder=/sys/fs/cgroup file=memory.max ;;
      memory) folder=/sys/fs/cgroup/memory file=memory.limit_in_bytes ;;
      *) continue ;;
    esac
    while true; do
      bytes=$(cat "$folder$group/$file" 2>/dev/null) || bytes=max
      if [[ $bytes =~ ^[0-9]{1,18}$ ]] && ((bytes / 1024 < least)); then least=$((bytes / 1024)); fi
      [[ ${group%/} ]] || break
      group=${group%/*}
    done
  done </proc/self/cgroup
  echo "$least"
}

# One compile job per core, but no more than memory carries: a file that includes libtorch takes 1.5 GB.
build_jobs() {
  local by_memory=$(($(memory_kb) / 1500000)) cores
  cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
  echo $((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
}

# Configures once, and again when a venv was filled (which tests exist depends on it); for a changed CMake file ninja
# does it by itself.
configure() {
  local folder=build/$1 venv made_in
  # A folder made in another place (a moved clone) is of no use to CMake. One place may have several names.
  made_in=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null) || true
  [[ $made_in && $made_in -ef . ]] || rm -rf "$folder"
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
