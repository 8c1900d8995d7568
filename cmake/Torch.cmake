# libtorch out of the Python wheel. find_package(Torch) is not used: it insists on a complete CUDA set-up.
if(NOT ECHELON_TORCH_ROOT)
  file(GLOB found ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(GET found 0 ECHELON_TORCH_ROOT)
endif()
if(NOT EXISTS ${ECHELON_TORCH_ROOT}/include/ATen/ATen.h)
  message(FATAL_ERROR "no libtorch under '${ECHELON_TORCH_ROOT}': run ./make.sh setup, or pass -DECHELON_TORCH_ROOT=<torch package folder>")
endif()
file(STRINGS ${ECHELON_TORCH_ROOT}/version.py version REGEX "^__version__ = ")
string(REGEX REPLACE "^[^']*'([^'+]*).*" "\\1" ECHELON_TORCH_VERSION ${version})
set(torch_lib ${ECHELON_TORCH_ROOT}/lib)
add_library(torch_headers INTERFACE)
target_include_directories(torch_headers SYSTEM INTERFACE
  ${ECHELON_TORCH_ROOT}/include ${ECHELON_TORCH_ROOT}/include/torch/csrc/api/include)

add_library(torch_cpu INTERFACE)
target_link_libraries(torch_cpu INTERFACE torch_headers ${torch_lib}/libtorch_cpu.so ${torch_lib}/libc10.so)
# at::parallel_for is an OpenMP loop in its caller, and a serial one without this; the runtime must be libtorch's
# own, or two pools of threads would share the cores. Clang compiles for another runtime: its loops stay serial.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(torch_cpu INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
  target_link_libraries(torch_cpu INTERFACE ${torch_lib}/libgomp.so.1)
else()
  message(STATUS "loops of at::parallel_for: one thread a rank, since only GCC compiles for libtorch's OpenMP runtime")
endif()
# libtorch_cpu's own dependencies (cudart, cupti) lie in sibling wheels that its RPATH finds at run time.
target_link_options(torch_cpu INTERFACE -Wl,--allow-shlib-undefined -Wl,--unresolved-symbols=ignore-in-shared-libs)
set(CMAKE_BUILD_RPATH ${torch_lib})
