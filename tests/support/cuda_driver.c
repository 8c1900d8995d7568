// A CUDA driver by name (libcuda.so.1), for tests of what is said where GPUs are, or none: it starts, and shows as many
// devices as ECHELON_DRIVER_SHOWS says. Nothing can be computed on them.
#include <stdlib.h>
#include <string.h>

static int shown(void) {
  const char* count = getenv("ECHELON_DRIVER_SHOWS");
  return count != NULL ? atoi(count) : 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  return shown() > 0 ? 0 : 100;  // CUDA_ERROR_NO_DEVICE
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = shown();
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  strncpy(name, "a stand-in", (size_t)size);
  return 0;
}
