# Decides whether GPU code is built (ECHELON_HAVE_CUDA) and names what it links: cuda_runtime, nccl, torch_cuda.
# The result runs on machines without a driver too: GPU code lives in a library of its own that is loaded on demand.
set(ECHELON_HAVE_CUDA OFF)
if(NOT ECHELON_CUDA STREQUAL "OFF" AND ECHELON_TORCH)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(nvcc_program nvcc HINTS /usr/local/cuda/bin)
    if(nvcc_program)
      set(CMAKE_CUDA_COMPILER ${nvcc_program})
    endif()
  endif()
  check_language(CUDA)
  set(nccl_wheel ${ECHELON_TORCH_ROOT}/../nvidia/nccl)  # where pip puts what torch depends on
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS /usr/local/cuda/include ${nccl_wheel}/include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS /usr/local/cuda/lib /usr/local/cuda/lib64 ${nccl_wheel}/lib)
  if(CMAKE_CUDA_COMPILER AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(ECHELON_HAVE_CUDA ON)
  elseif(ECHELON_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ECHELON_CUDA=ON needs nvcc, nccl.h and libnccl (found: nvcc '${CMAKE_CUDA_COMPILER}', "
                        "nccl.h in '${NCCL_INCLUDE_DIR}', library '${NCCL_LIBRARY}'); install the CUDA toolkit and NCCL, "
                        "or configure with -DECHELON_CUDA=OFF")
  endif()
endif()
message(STATUS "GPU code: ${ECHELON_HAVE_CUDA}")

if(ECHELON_HAVE_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)  # A100, H100/H200
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)  # kernels only; Debian 12's CMake 3.25 does not know C++20 for nvcc
  find_package(CUDAToolkit REQUIRED)
  add_library(cuda_runtime INTERFACE)
  target_include_directories(cuda_runtime SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(cuda_runtime INTERFACE CUDA::cudart)
  add_library(nccl INTERFACE)
  target_include_directories(nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
  target_link_libraries(nccl INTERFACE ${NCCL_LIBRARY} cuda_runtime)
  add_library(torch_cuda INTERFACE)
  target_link_libraries(torch_cuda INTERFACE torch_cpu cuda_runtime
    -Wl,--no-as-needed ${torch_lib}/libtorch_cuda.so ${torch_lib}/libc10_cuda.so -Wl,--as-needed)
endif()
