/* Preloaded into a program under test: the file system calls named in ECHELON_FAIL (flock, fsync, rename) fail as they
   do on file systems that lack them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(const char* call) {
  const char* failing = getenv("ECHELON_FAIL");
  return failing != NULL && strstr(failing, call) != NULL;
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
