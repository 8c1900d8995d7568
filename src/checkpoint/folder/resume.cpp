#include "checkpoint/folder/resume.h"

#include <string>

#include "base/error.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon::checkpoint {

void check_resume(Resume resume, const std::filesystem::path& checkpoints, bool on_disk, bool in_memory) {
  const std::string folder = str('\'', checkpoints.string(), '\'');
  if (resume == Resume::kMust && !on_disk && !in_memory) {
    throw Error(Code::kUsage, "checkpoint.resume is 'must', but ", folder,
                " holds no committed checkpoint; set it to 'auto' for a first start");
  }
  if (resume == Resume::kNever && (on_disk || in_memory) && !is_later_start_of_job()) {
    throw Error(Code::kUsage, "checkpoint.resume is 'never', but ", on_disk ? folder : "the nodes' memory",
                " holds checkpoints; set it to 'auto' to continue them, or use another run.dir");
  }
}

}  // namespace echelon::checkpoint
