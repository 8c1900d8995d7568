/* Preloaded into a program under test: the file system calls named in ECHELON_FAIL (flock, fsync, rename)
   fail as they do on file systems that lack them; those named in ECHELON_DELAY begin late: unlink by one
   second, rmdir by two, GOMP_parallel (a computation on all threads) by 200 ms. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int named(const char* variable, const char* call) {
  const char* calls = getenv(variable);
  return calls != NULL && strstr(calls, call) != NULL;
}

static int fails(const char* call, int error) {
  if (!named("ECHELON_FAIL", call)) return 0;
  errno = error;
  return 1;
}

int flock(int fd, int operation) {
  if (fails("flock", EOPNOTSUPP)) return -1;
  return (int)syscall(SYS_flock, fd, operation);
}

int fsync(int fd) {
  if (fails("fsync", EIO)) return -1;
  return (int)syscall(SYS_fsync, fd);
}

int renameat(int from_dir, const char* from, int to_dir, const char* to) {
  if (fails("rename", EXDEV)) return -1;
  return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

int rename(const char* from, const char* to) {
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlinkat(int dir, const char* path, int flags) {
  if (flags == 0 && named("ECHELON_DELAY", "unlink")) sleep(1);
  if (flags == AT_REMOVEDIR && named("ECHELON_DELAY", "rmdir")) sleep(2);
  return (int)syscall(SYS_unlinkat, dir, path, flags);
}

int unlink(const char* path) {
  return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char* path) {
  return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

typedef void ParallelFunction(void (*)(void*), void*, unsigned, unsigned);

void GOMP_parallel(void (*body)(void*), void* argument, unsigned threads, unsigned flags) {
  if (named("ECHELON_DELAY", "GOMP_parallel")) usleep(200000);
  void* library =
      dlopen("libgomp.so.1", RTLD_LAZY); /* not RTLD_NEXT: the program loads the engine while it runs */
  ((ParallelFunction*)dlsym(library, "GOMP_parallel"))(body, argument, threads, flags);
}
