#pragma once

namespace echelon::test {

/// The calls of fs::Disk, as tests tell them apart.
enum class DiskCall {
  kOpen,    ///< open without O_CREAT
  kCreate,  ///< open with O_CREAT
  kClose,
  kRead,
  kWrite,
  kFlush,    ///< fsync and fdatasync, of a file or a folder
  kReserve,  ///< fallocate
  kResize,   ///< ftruncate
  kRename,   ///< rename and rename_new
  kLink,
  kUnlink,
  kMkdir,
  kRmdir,
  kStat,  ///< fstat and lstat
  kList,
};

}  // namespace echelon::test
