#!/usr/bin/env bash
# Collects what a finished build needs to run elsewhere on the same distribution release, without its source tree,
# compilers and Python:
#
#   docker/collect.sh BUILD_FOLDER PYTHON_PACKAGES OUTPUT
#
# BUILD_FOLDER     a build (build/release)
# PYTHON_PACKAGES  the site-packages folder whose torch it was built with
# OUTPUT           new folder, of the name it will have where it runs: bin/, lib/ and python/ (libtorch and the CUDA
#                  libraries, laid out as in their wheels, so that they find each other); packages.txt, the
#                  distribution's packages that own every other library (not those of Open MPI and PMIx, which are
#                  loaded on first use); ld.so.conf, for /etc/ld.so.conf.d
#
# Exit codes: 0 done, 2 usage, 3 a library is missing.
set -euo pipefail

die() {
  local code=$1
  shift
  echo "collect.sh: $*" >&2
  exit "$code"
}

(($# == 3)) || die 2 "expected: collect.sh BUILD_FOLDER PYTHON_PACKAGES OUTPUT"
build=$1 packages=$(realpath -e "$2") output=$3
[[ -x $build/bin/echelon && -x $build/bin/echelon-ckpt ]] || die 2 "$build/bin has no echelon and echelon-ckpt: build first"
[[ ! -e $output ]] || die 2 "$output exists: name a new folder"

# Libraries that an ELF file loads, by absolute path. The driver's own come from the machine that runs it.
libraries_of() {
  local name path rest
  while read -r name _ path rest; do
    case $name in
      libcuda.so.* | libnvidia-ml.so.*) continue ;;
    esac
    if [[ $path == not ]]; then die 3 "$1 needs $name, which is not here; CUDA's: docker/requirements_cuda.txt"; fi
    if [[ $path == /* ]]; then realpath "$path"; fi
  done < <(ldd "$1" | grep '=>')
}

all_libraries() {
  local file
  for file in "$build"/bin/echelon "$build"/bin/echelon-ckpt "$build"/lib/libechelon_*.so; do
    libraries_of "$file"
  done | sort -u
}
needed=$(all_libraries) || exit 3

mkdir -p "$output/bin" "$output/lib" "$output/python"
install -m 755 "$build/bin/echelon" "$build/bin/echelon-ckpt" "$output/bin/"
install -m 644 "$build"/lib/libechelon_*.so "$output/lib/"

# torch's folder holds libraries nobody here uses. NVIDIA's load each other by name (cuDNN, NVRTC), so all of a folder.
copy_wheel_library() {
  local relative=${1#"$packages"/}
  mkdir -p "$output/python/$(dirname "$relative")"
  case $relative in
    nvidia/*) cp -a "$(dirname "$1")"/*.so* "$output/python/$(dirname "$relative")/" ;;
    # What this one loads by name: compiling of kernels at run time, and linear algebra.
    */libtorch_cuda.so) cp -a "$1" "${1%/*}"/libcaffe2_nvrtc.so "${1%/*}"/libtorch_cuda_linalg.so "$output/python/${relative%/*}/" ;;
    *) cp -a "$1" "$output/python/$relative" ;;
  esac
}

owners=()
while read -r library; do
  case $library in
    "$packages"/*) copy_wheel_library "$library" ;;
    *)
      # Where /lib is a link to /usr/lib, dpkg may know the file by either name.
      owner=$(dpkg-query -S "$library" 2>/dev/null || dpkg-query -S "${library#/usr}" 2>/dev/null) ||
        die 3 "$library belongs to no package and is not below $packages"
      owners+=("${owner%%:*}")
      ;;
  esac
done <<<"$needed"
printf '%s\n' "${owners[@]}" | sort -u >"$output/packages.txt"

# Symbols stay, for the names in a backtrace; line tables go.
strip --strip-debug "$output"/bin/* "$output"/lib/*.so

# The programs' own search path names the folder they were built in. This one is for /etc/ld.so.conf.d.
find "$(realpath "$output")/python" -name '*.so*' -printf '%h\n' | sort -u >"$output/ld.so.conf"
