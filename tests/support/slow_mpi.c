// An MPI whose start takes as many milliseconds as SLOW_MPI_MS says, and that can do nothing else.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char ompi_mpi_comm_world, ompi_mpi_byte, ompi_mpi_errors_return, ompi_request_null;

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  (void)argc, (void)argv;
  usleep(1000 * (unsigned)atoi(getenv("SLOW_MPI_MS")));
  *provided = required;
  return 0;
}
int MPI_Comm_rank(void* comm, int* rank) {
  (void)comm;
  *rank = 1;
  return 0;
}
int MPI_Comm_size(void* comm, int* size) {
  (void)comm;
  *size = 2;
  return 0;
}
int MPI_Get_library_version(char* text, int* length) {
  strcpy(text, "slow MPI");
  *length = (int)strlen(text);
  return 0;
}
int MPI_Comm_set_errhandler(void) {
  return 0;
}
int MPI_Error_string(void) {
  return 1;
}
int MPI_Finalize(void) {
  return 1;
}
int MPI_Initialized(void) {
  return 1;
}
int MPI_Irecv(void) {
  return 1;
}
int MPI_Isend(void) {
  return 1;
}
int MPI_Query_thread(void) {
  return 1;
}
int MPI_Testsome(void) {
  return 1;
}
