#include "checkpoint/folder/owner.h"

#include "base/error.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kMaxRecordBytes = 4096;

}  // namespace

Owner::Owner(const std::filesystem::path& checkpoints)
    : file_(checkpoints / ".owner"), record_(str(describe_this_process(), '\n', fs::random_hex(), '\n')) {
  fs::publish_file(file_, record_, Code::kCheckpoint);
}

void Owner::require() const {
  if (!entry_exists(file_)) return fs::publish_file(file_, record_, Code::kCheckpoint);
  const std::string now = read_input(file_, kMaxRecordBytes);
  if (now == record_) return;
  throw Error(Code::kCheckpoint, "'", file_.parent_path().string(), "' has a new owner, ",
              now.substr(0, now.find('\n')),
              ", which has started the same run; this one no longer saves or removes anything there: "
              "end one of the two, or give it another run.dir");
}

}  // namespace echelon::checkpoint
