#include "comm/mpi/mpi_library.h"

#include "base/process/site_library.h"

namespace echelon {
namespace {

MpiLibrary load_mpi() {
  const LoadedLibrary library = load(
      {.name = "Open MPI",
       .variable = "ECHELON_MPI",
       .soname = "libmpi.so.40",
       .symbol = "ompi_mpi_comm_world",
       .remedy = "install Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin) or load its module "
                 "(module load openmpi); MPICH and its relatives do not fit"});
  MpiLibrary mpi{};
  library.find(mpi.comm_rank, "MPI_Comm_rank");
  library.find(mpi.comm_set_errhandler, "MPI_Comm_set_errhandler");
  library.find(mpi.comm_size, "MPI_Comm_size");
  library.find(mpi.error_string, "MPI_Error_string");
  library.find(mpi.finalize, "MPI_Finalize");
  library.find(mpi.get_library_version, "MPI_Get_library_version");
  library.find(mpi.init_thread, "MPI_Init_thread");
  library.find(mpi.initialized, "MPI_Initialized");
  library.find(mpi.irecv, "MPI_Irecv");
  library.find(mpi.isend, "MPI_Isend");
  library.find(mpi.query_thread, "MPI_Query_thread");
  library.find(mpi.testsome, "MPI_Testsome");
  library.find(mpi.world, "ompi_mpi_comm_world");
  library.find(mpi.byte, "ompi_mpi_byte");
  library.find(mpi.errors_return, "ompi_mpi_errors_return");
  library.find(mpi.null_request, "ompi_request_null");
  return mpi;
}

}  // namespace

const MpiLibrary& mpi() {
  static const MpiLibrary library = load_mpi();
  return library;
}

}  // namespace echelon
