#include "base/files/pinned.h"

#include <fcntl.h>

#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace echelon::fs {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::vector<std::pair<std::string, std::shared_ptr<const Fd>>> pinned;
};

Table& table() {
  static Table& whole = *new Table;  // never destroyed: see pin_private()
  return whole;
}

thread_local const PinnedHere* innermost = nullptr;

}  // namespace

void pin_private(const Path& folder, Fd handle) {
  auto kept = std::make_shared<const Fd>(std::move(handle));
  const std::unique_lock lock(table().mutex);
  for (auto& [name, old] : table().pinned) {
    if (name == folder) return old.swap(kept);
  }
  table().pinned.emplace_back(folder.string(), std::move(kept));
}

PinnedHere::PinnedHere(const Path& folder, const Fd& handle)
    : folder_(folder.string()), handle_(handle.get()), before_(std::exchange(innermost, this)) {}

PinnedHere::~PinnedHere() {
  innermost = before_;
}

bool Place::take(const std::string& folder, int handle, const char* whole) {
  const std::string_view text(whole);
  if (!text.starts_with(folder) || text.size() == folder.size() || text[folder.size()] != '/') return false;
  const std::size_t rest = text.find_first_not_of('/', folder.size());
  from = handle;
  path = rest == text.npos ? "." : whole + rest;
  return true;
}

Place::Place(const char* whole) : from(AT_FDCWD), path(whole) {
  for (const PinnedHere* here = innermost; here != nullptr; here = here->before_) {
    if (take(here->folder_, here->handle_, whole)) return;
  }
  const std::shared_lock lock(table().mutex);
  for (const auto& [folder, handle] : table().pinned) {
    if (!take(folder, handle->get(), whole)) continue;
    modes = 0700;
    kept_ = handle;
    return;
  }
}

}  // namespace echelon::fs
