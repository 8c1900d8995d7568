# The three building blocks every folder uses.
set(ECHELON_WARNINGS -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # Clang blames callers of std::stable_sort for what libstdc++ calls there.
  list(APPEND ECHELON_WARNINGS -Wno-deprecated-declarations -Wthread-safety)
endif()
if(ECHELON_WERROR)
  list(APPEND ECHELON_WARNINGS -Werror)
endif()

# Tests are compiled more often than they run.
set(ECHELON_TEST_FLAGS -O1)

# Python with the packages of tests/support/requirements.txt, for tests that compare with other implementations.
set(ECHELON_TEST_PYTHON ${CMAKE_SOURCE_DIR}/.venv-test/bin/python CACHE FILEPATH
    "Python of the test venv; ./make.sh setup test makes the default one")

# Python with the packages of tests/support/requirements_cluster.txt, for the checks of cluster/ and docker/.
set(ECHELON_CLUSTER_PYTHON ${CMAKE_SOURCE_DIR}/.venv-cluster/bin/python CACHE FILEPATH
    "Python of the cluster checks; ./make.sh setup test makes the default one")

# echelon_join_sources(target [LEAVE_OUT files...]): compiles several sources as one. What headers make a compiler
# instantiate for each source, libtorch's autograd functions or the command line's and JSON's, is then made once for all
# of them: half the compile time. Sources that use one name for different things are left out. Not in the dev preset,
# where one changed source should be one short compilation.
function(echelon_join_sources target)
  cmake_parse_arguments(ARG "" "" "LEAVE_OUT" ${ARGN})
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT ECHELON_SANITIZE)
    return()
  endif()
  set(batch 12)
  if(target MATCHES "^unit_")
    set(batch 6)  # tests have many small names of their own
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # a source's types may have members of its own types
  endif()
  set_source_files_properties(${ARG_LEAVE_OUT} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# echelon_compile_briefly(target): less optimisation, which takes a quarter less of the compiler's time. For code that
# neither a step, a save nor the preparation of data passes through often.
function(echelon_compile_briefly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
endfunction()
set(ECHELON_BRIEF bootstrap doctor liveness metrics profile recipe report run shapes submit supervise)

# echelon_library(name [ROOMS folders...] [PUBLIC libs...] [PRIVATE libs...] [ALONE files...] [WITHOUT files...])
# One folder = one library: all .cpp files beside the calling CMakeLists.txt and in its ROOMS but for those WITHOUT,
# headers found under src/.
# Its sources are joined, but for ALONE.
function(echelon_library name)
  cmake_parse_arguments(ARG "" "" "ROOMS;PUBLIC;PRIVATE;ALONE;WITHOUT" ${ARGN})
  list(TRANSFORM ARG_ROOMS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/*.cpp")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${ARG_ROOMS})
  list(REMOVE_ITEM sources ${ARG_WITHOUT})
  if(NOT sources)
    message(FATAL_ERROR "echelon_library(${name}): no sources in ${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  add_library(echelon_${name} STATIC ${sources})
  add_library(echelon::${name} ALIAS echelon_${name})
  target_include_directories(echelon_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(echelon_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  target_compile_options(echelon_${name} PRIVATE ${ECHELON_WARNINGS})
  if(name IN_LIST ECHELON_BRIEF)
    echelon_compile_briefly(echelon_${name})
  endif()
  echelon_join_sources(echelon_${name} LEAVE_OUT ${ARG_ALONE})
endfunction()

# libtorch's headers are most of the compile time of what includes them. Programs cannot use those precompiled for the
# libraries, whose code is position-independent in another way: the first test makes them for all.
function(echelon_precompile_test target)
  target_link_libraries(${target} PRIVATE GTest::gtest)  # whose definitions are among those precompiled
  if(TARGET unit_model AND NOT target STREQUAL "unit_model")
    target_precompile_headers(${target} REUSE_FROM unit_model)
  else()
    target_precompile_headers(${target} PRIVATE <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <gtest/gtest.h>)
  endif()
endfunction()

# One CTest entry a file of tests, for binaries with libtorch: loading it takes longer than most tests.
function(echelon_file_tests module)
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} tests REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
    if(NOT tests)
      continue()
    endif()
    list(TRANSFORM tests REPLACE "^[A-Z_]+\\( *([A-Za-z0-9_]+).*" "\\1")
    list(REMOVE_DUPLICATES tests)
    list(TRANSFORM tests REPLACE "(.+)" "\\1.*:*/\\1.*:\\1/*")
    list(JOIN tests ":" filter)
    get_filename_component(name ${file} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${name})
    add_test(NAME ${module}.${name} COMMAND unit_${module} --gtest_filter=${filter})
    set_tests_properties(${module}.${name} PROPERTIES LABELS unit TIMEOUT 300
      FAIL_REGULAR_EXPRESSION "Running 0 tests;  SKIPPED ")
  endforeach()
endfunction()

# echelon_unit_tests(module [ROOMS folders...] [LIBS libs...] [ALONE files...]): one gtest binary from all .cpp files of
# tests/unit/<module> and of its ROOMS. Those without libtorch are labelled unit_torch_free (gtest_discover_tests takes
# one label): ./make.sh test runs them under the sanitizers only. All but ALONE are joined.
function(echelon_unit_tests module)
  cmake_parse_arguments(ARG "" "" "ROOMS;LIBS;ALONE" ${ARGN})
  list(TRANSFORM ARG_ROOMS REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/tests/unit/${module}/\\1/*.cpp")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${module}/*.cpp ${ARG_ROOMS})
  if(NOT sources)
    return()
  endif()
  add_executable(unit_${module} ${sources})
  target_include_directories(unit_${module} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(unit_${module} PRIVATE echelon::${module} ${ARG_LIBS} echelon_test_places GTest::gtest_main)
  target_compile_options(unit_${module} PRIVATE ${ECHELON_WARNINGS} ${ECHELON_TEST_FLAGS})
  get_target_property(precompiled echelon_${module} PRECOMPILE_HEADERS_REUSE_FROM)
  if(precompiled)  # libtorch's headers
    echelon_precompile_test(unit_${module})
    echelon_file_tests(${module} ${sources})
    return()
  endif()
  list(TRANSFORM ARG_ALONE PREPEND ${CMAKE_SOURCE_DIR}/tests/unit/${module}/)
  echelon_join_sources(unit_${module} LEAVE_OUT ${ARG_ALONE})
  set(timeout 120)
  if(ECHELON_SANITIZE)
    set(timeout 900)
  endif()
  set(label unit_torch_free)
  if(module STREQUAL "base")
    set(label unit)  # checksums and half precision have code of their own for each processor
  endif()
  gtest_discover_tests(unit_${module} TEST_PREFIX "${module}." DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${timeout} LABELS ${label})
endfunction()
