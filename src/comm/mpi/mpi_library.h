#pragma once
#include <mpi.h>

namespace echelon {

#ifndef OPEN_MPI
#error "expected the mpi.h of Open MPI 4 or 5: other MPIs have other handles and are not loaded"
#endif

/// What Echelon uses of libmpi.so.40 (Open MPI 4 and 5), which no program is linked with. The constants of
/// mpi.h that are numbers are used as they are; its handles are addresses in the library.
struct MpiLibrary {
  decltype(&::MPI_Comm_rank) comm_rank;
  decltype(&::MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&::MPI_Comm_size) comm_size;
  decltype(&::MPI_Error_string) error_string;
  decltype(&::MPI_Finalize) finalize;
  decltype(&::MPI_Get_library_version) get_library_version;
  decltype(&::MPI_Init_thread) init_thread;
  decltype(&::MPI_Initialized) initialized;
  decltype(&::MPI_Irecv) irecv;
  decltype(&::MPI_Isend) isend;
  decltype(&::MPI_Query_thread) query_thread;
  decltype(&::MPI_Testsome) testsome;
  MPI_Comm world;
  MPI_Datatype byte;
  MPI_Errhandler errors_return;
  MPI_Request null_request;
};

/// The library, loaded by the first call: the file that ECHELON_MPI names, else libmpi.so.40 as the loader
/// finds it, else the one beside mpirun. Thread-safe. Throws Error(kEnvironment) that says what to install.
[[nodiscard]] const MpiLibrary& mpi();

}  // namespace echelon
