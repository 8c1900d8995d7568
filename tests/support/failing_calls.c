/* Preloaded into a program under test: the file system calls named in ECHELON_FAIL (flock, fsync, rename) fail as they
   do on file systems that lack them; those named in ECHELON_DELAY begin late: unlink by one second, rmdir by two. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int named(const char* variable, const char* call) {
  const char* calls = getenv(variable);
  return calls != NULL && strstr(calls, call) != NULL;
}

static int fails(const char* call) {
  return named("ECHELON_FAIL", call);
}

int flock(int fd, int operation) {
  if (fails("flock")) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return (int)syscall(SYS_flock, fd, operation);
}

int fsync(int fd) {
  if (fails("fsync")) {
    errno = EIO;
    return -1;
  }
  return (int)syscall(SYS_fsync, fd);
}

int rename(const char* from, const char* to) {
  if (fails("rename")) {
    errno = EXDEV;
    return -1;
  }
  return (int)syscall(SYS_renameat2, -100 /* AT_FDCWD */, from, -100, to, 0);
}

int unlink(const char* path) {
  if (named("ECHELON_DELAY", "unlink")) sleep(1);
  return (int)syscall(SYS_unlinkat, -100 /* AT_FDCWD */, path, 0);
}

int rmdir(const char* path) {
  if (named("ECHELON_DELAY", "rmdir")) sleep(2);
  return (int)syscall(SYS_unlinkat, -100 /* AT_FDCWD */, path, 0x200 /* AT_REMOVEDIR */);
}
