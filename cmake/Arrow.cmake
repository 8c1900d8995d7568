# Arrow's C++ libraries out of the wheel of pyarrow, since Debian and Ubuntu have no package of them: the target arrow.
# Without the wheel everything but the reader of Parquet files is built. The names of the libraries contain their ABI, so
# what is built with one version loads no other.
if(NOT ECHELON_ARROW_ROOT)
  file(GLOB found ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/pyarrow)
  set(ECHELON_ARROW_ROOT ${found})
endif()
file(GLOB parquet_library ${ECHELON_ARROW_ROOT}/libparquet.so.*)
if(ECHELON_ARROW_ROOT AND parquet_library)
  file(STRINGS ${ECHELON_ARROW_ROOT}/include/arrow/util/config.h version REGEX "define ARROW_VERSION_STRING ")
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" ECHELON_ARROW_VERSION "${version}")
  string(REGEX REPLACE ".*\\.so\\." "" ECHELON_ARROW_ABI ${parquet_library})
  add_library(arrow INTERFACE)
  target_include_directories(arrow SYSTEM INTERFACE ${ECHELON_ARROW_ROOT}/include)
  target_link_libraries(arrow INTERFACE ${parquet_library} ${ECHELON_ARROW_ROOT}/libarrow.so.${ECHELON_ARROW_ABI})
  message(STATUS "Parquet: pyarrow ${ECHELON_ARROW_VERSION} in '${ECHELON_ARROW_ROOT}'")
else()
  message(STATUS "Parquet: left out, no pyarrow in '${ECHELON_ARROW_ROOT}'")
endif()
