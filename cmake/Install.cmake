# cmake --install: the programs with what they load (Programs.cmake), and what a user of them reads and runs.
# The programs look for their plugins in ../lib, so that folder has this name on every distribution. OPTIONAL: quickstart
# leaves out what it does not use.
foreach(target ${product})
  install(TARGETS ${target} RUNTIME DESTINATION bin LIBRARY DESTINATION lib OPTIONAL)
endforeach()
install(DIRECTORY recipes cluster DESTINATION share/echelon USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
install(DIRECTORY docs/ DESTINATION share/doc/echelon)
install(FILES LICENSE DESTINATION share/doc/echelon)

# libtorch is not copied: what is installed loads the one it was built with. The same search path in the build folder,
# since CMake otherwise lengthens the one there by an empty entry, which the loader takes for the working folder.
set_target_properties(${product} PROPERTIES INSTALL_RPATH "${torch_lib}" INSTALL_RPATH_USE_LINK_PATH ON
  BUILD_WITH_INSTALL_RPATH ON)
if(TARGET echelon_parquet)
  set_property(TARGET echelon_parquet APPEND PROPERTY INSTALL_RPATH ${ECHELON_ARROW_ROOT})
endif()
if(TARGET echelon_cuda)
  # CMake takes folders of linked libraries by itself, but none within the source tree, as a wheel's in .venv.
  get_filename_component(nccl_folder ${NCCL_LIBRARY} DIRECTORY)
  set_property(TARGET echelon_cuda APPEND PROPERTY INSTALL_RPATH ${nccl_folder})
endif()

# What a release folder needs of Python, for tools/package.
set(requires torch==${ECHELON_TORCH_VERSION})
if(TARGET echelon_parquet)
  list(APPEND requires pyarrow==${ECHELON_ARROW_VERSION})
endif()
set(ECHELON_REQUIRES "${requires}" CACHE INTERNAL "")
