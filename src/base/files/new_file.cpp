#include "base/files/new_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/files/disk.h"
#include "base/files/kill_point.h"
#include "base/files/own_file.h"
#include "base/str.h"

namespace echelon::fs {
namespace {

constexpr std::string_view kDraftEnd = ".tmp";

bool is_draft(std::string_view name) {
  if (!name.ends_with(kDraftEnd)) return false;
  name.remove_suffix(kDraftEnd.size());
  const std::size_t dot = name.rfind('.');
  if (dot == 0 || dot == name.npos || name.size() - dot - 1 != kRandomDigits) return false;
  return name.find_first_not_of("0123456789abcdef", dot + 1) == name.npos;
}

void require_file_size_allowed(const Path& path, std::uint64_t bytes, Code code) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
    return;
  throw Error(code, "cannot write '", path.string(), "': it needs ", human_bytes(bytes),
              ", but this process may write at most ", human_bytes(limit.rlim_cur), " (ulimit -f)");
}

bool is_pipe_or_device(const Path& path) {
  struct stat info {};
  return disk().lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) &&
         !S_ISLNK(info.st_mode);
}

}  // namespace

Path draft_name(const Path& path) {
  // Not with str(): out of memory, a stream truncates silently, which would give another name.
  return path.string().append(1, '.').append(random_hex()).append(kDraftEnd);
}

void remove_drafts(const Path& folder) noexcept {
  try {
    std::vector<std::string> names;
    if (disk().list(folder.c_str(), names) != 0) return;
    for (const std::string& name : names) {
      if (is_draft(name)) (void)disk().unlink((folder / name).c_str());
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): out of memory: the drafts stay
  }
}

void reserve_space(const Fd& fd, const Path& path, std::uint64_t bytes, Code code) {
  if (bytes == 0) return;
  require_file_size_allowed(path, bytes, code);
  const auto size = static_cast<off_t>(bytes);
  int error = 0;
  do {
    error = disk().fallocate(fd.get(), size) == 0 ? 0 : errno;
  } while (error == EINTR);
  // A file system without fallocate: set the size only, so that writes go to a file of the final length.
  if (error == EOPNOTSUPP || error == ENOSYS) error = disk().ftruncate(fd.get(), size) == 0 ? 0 : errno;
  if (error == 0) return;
  throw Error(code, "cannot reserve ", human_bytes(bytes), " for '", path.string(), "': ", reason(error));
}

NewFile::NewFile(Path path, Code code)
    : path_(std::move(path)), code_(code), fd_(open(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, code)) {}

NewFile::NewFile(Path path, std::uint64_t bytes, Code code)
    : path_(std::move(path)), stays_(true), code_(code), fd_(open_own(path_, O_WRONLY | O_CREAT, code)) {
  if (disk().ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
    throw system_error(code, "set the size of", path_, errno);
}

NewFile::~NewFile() {
  if (!stays_) discard();
}

void NewFile::discard() noexcept {
  direct_.reset();
  fd_ = Fd();
  if (!path_.empty()) disk().unlink(path_.c_str());
  path_.clear();  // a later file of that name belongs to somebody else
}

void NewFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  write_at(fd_, offset, bytes, code_, path_);
}

void NewFile::append(std::string_view text) {
  write(appended_, std::as_bytes(std::span(text)));
  appended_ += text.size();
}

void NewFile::write_bulk(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!direct_) direct_.emplace(path_, O_WRONLY, code_);
  const std::size_t done = direct_->write(offset, bytes);
  write(offset + done, bytes.subspan(done));
}

void NewFile::close() {
  if (direct_) direct_->close();
  fd_.close(code_, path_);
}

void NewFile::flush() {
  // Also after O_DIRECT writes: they bypass the page cache, but not the disk's own cache nor the file's
  // metadata. A failed fsync is final; Linux reports it once and may drop the pages (the "fsyncgate" of
  // 2018).
  fs::fsync(fd_, code_, path_);
}

void NewFile::finish() {
  if (direct_) direct_->close();
  flush();
  fd_.close(code_, path_);
}

void NewFile::rename(const Path& name) {
  if (is_pipe_or_device(name))
    throw Error(code_, "'", name.string(), "' is a pipe or a device and is not replaced");
  if (disk().rename(path_.c_str(), name.c_str()) != 0)
    throw system_error(code_, "rename into place", name, errno);
  path_.clear();
}

void NewFile::publish(const Path& name) {
  // After the flush of the content: a rename before it could leave an empty file under the final name after a
  // loss of power. The name is durable once its folder is flushed.
  rename(name);
  fsync_directory(name.has_parent_path() ? name.parent_path() : Path("."), code_);
}

void require_output(const Path& path, const Path& input) {
  if (path.empty()) return;
  const auto refuse = [&](const char* what) {
    throw Error(Code::kUsage, "output '", path.string(), "' is ", what, "; name another file");
  };
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, ignored);
  if (std::filesystem::is_directory(status)) refuse("a folder");
  if (std::filesystem::is_symlink(status)) refuse("a link");
  if (std::filesystem::is_other(status)) refuse("a pipe or a device");
  if (std::filesystem::equivalent(path, input, ignored)) refuse("what the command reads");
  if (path.has_parent_path() && !std::filesystem::is_directory(path.parent_path(), ignored))
    refuse("in a folder that is not there");
}

void publish_file(const Path& path, std::string_view text, Code code) {
  NewFile draft(draft_name(path), code);
  draft.append(text);
  // Order matters: content first, then the name, then the folder.
  draft.finish();
  kill_point("publish");
  draft.publish(path);
}

void replace_file(const Path& path, std::string_view text, Code code) {
  NewFile draft(draft_name(path), code);
  draft.append(text);
  draft.close();
  draft.rename(path);
}

}  // namespace echelon::fs
