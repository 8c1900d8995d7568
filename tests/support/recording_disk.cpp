#include "support/recording_disk.h"

#include <fcntl.h>

namespace echelon::test {

void RecordingDisk::note(std::string text) {
  const std::lock_guard lock(mutex_);
  operations_.push_back({.kind = Operation::Kind::kNote, .path = std::move(text)});
}

std::vector<Operation> RecordingDisk::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

ssize_t RecordingDisk::keep(const DiskRequest& request, const std::function<ssize_t()>& make) {
  const DiskCall call = request.call;
  if (call == DiskCall::kClose || call == DiskCall::kRead || call == DiskCall::kStat ||
      call == DiskCall::kList)
    return make();
  const std::lock_guard lock(mutex_);
  const ssize_t result = make();
  if (result < 0) return result;
  Operation operation{.call = call, .path = request.path, .to = request.to, .offset = request.offset};
  if (call == DiskCall::kOpen || call == DiskCall::kCreate) {
    // Every open is kept, reading ones too: a flush needs no write access.
    operation.handle = handles_[static_cast<int>(result)] = opened_++;
    operation.truncates = (request.flags & O_TRUNC) != 0;
  } else if (request.fd >= 0) {
    operation.handle = handles_.at(request.fd);
  }
  if (call == DiskCall::kWrite)
    operation.bytes.assign(request.bytes, request.bytes + result);
  else
    operation.size = request.size;
  operations_.push_back(std::move(operation));
  return result;
}

}  // namespace echelon::test
