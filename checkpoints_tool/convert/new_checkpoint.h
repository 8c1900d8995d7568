#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>

#include "checkpoint/write/commit.h"

namespace echelon::tool {

/// Gives the bytes [at, at + to.size()) of the slice [begin, end) of tensor number `tensor`; called with
/// rising `at` and whole elements.
using FillSlice =
    std::function<void(std::size_t tensor, std::uint64_t begin, std::uint64_t at, std::span<std::byte> to)>;

/// Makes the folder `output`, which must not exist, with one committed checkpoint of info.ranks shards in it:
/// whole or not at all. `source`: the folder that is read, in which `output` must not lie. The tensors are
/// divided evenly; memory is bounded, whatever their size. info.save_id is chosen here. `check` gets the
/// committed step folder before anybody can see it, and may throw. `doing`: as of Progress. Returns the step
/// folder. Throws Error and Interrupted.
std::filesystem::path write_new_checkpoint(const std::filesystem::path& output,
                                           const std::filesystem::path& source, checkpoint::CommitInfo info,
                                           const std::string& doing, const FillSlice& fill,
                                           const std::function<void(const std::filesystem::path&)>& check);

}  // namespace echelon::tool
