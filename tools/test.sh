# shellcheck shell=bash
# Part of make.sh: tests, benchmarks, drills, formatting.
# Uses of make.sh: say, die, the other parts' setup, setup_oracles, install_packages, compile, build.

readonly TEST_LOGS=build/test

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
    -E 'LeftOut|_NOT_BUILT$' -R '^(comm|liveness|data|gpu\.runtime)\.|^checkpoint\.(Writer|CheckpointReader|Shard|Commit\.|Ranks/(RoundTrip|BulkRead)|BulkReadOverlaps|Journal)' ||
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
  build cuda product device_tests
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
