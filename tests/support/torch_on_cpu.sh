#!/usr/bin/env bash
# usage: torch_on_cpu.sh TEST_SITE TORCH_SITE   (two site-packages folders)
# Makes `import torch` work in the test venv with the torch package of another venv, on the CPU, without the 3.6 GB of
# GPU libraries its Python module is linked against: for each of them that is not installed, TEST_SITE gets an empty
# library of the same name. Their functions are only ever called on a GPU; loading lazily, nothing else misses them.
set -euo pipefail
test_site=$1
torch_site=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
empty=$test_site/torch_on_cpu_libs

needed_libraries() {
  local library
  for library in "$torch_site"/torch/lib/*.so; do
    readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
  done | sort -u | grep -E '^lib(cu|nccl|nvshmem)'
}

rm -rf "$empty"
mkdir -p "$empty"
for name in $(needed_libraries); do
  compgen -G "$torch_site/nvidia/*/lib/$name" >/dev/null && continue
  g++ -shared -fPIC -nostdlib -Wl,-soname,"$name" -o "$empty/$name" -x c++ /dev/null
done
cp "$here/torch_on_cpu.py" "$test_site/"
printf '%s\nimport torch_on_cpu\n' "$torch_site" >"$test_site/torch_on_cpu.pth"
