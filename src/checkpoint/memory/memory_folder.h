#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/fs.h"

/// Where the memory checkpoints of a run lie on a node: in a folder of its own on a tmpfs,
///   <memory_dir>/echelon-<user id>/<run>-<digits>/step-000000040.a1b2c3d4/
/// whose upper parts belong to this user alone.
namespace echelon::checkpoint {

/// Identifies a run: a run folder that was removed and made again is another run, whose memory must not be
/// found by this one.
struct MemoryIdentity {
  std::string id;                ///< sixteen hex digits
  std::filesystem::path folder;  ///< of the run, on every node
  bool operator==(const MemoryIdentity&) const = default;
};
/// The file of the run folder that holds it.
inline constexpr std::string_view kMemoryFile = ".memory.json";

/// Of a run folder that may have none yet; makes it then, or when `memory_dir` has changed. Throws
/// Error(kUsage).
[[nodiscard]] MemoryIdentity identify_run(const std::filesystem::path& run,
                                          const std::filesystem::path& memory_dir);
/// What a run folder says; its id is empty if it says nothing. Throws Error(kCheckpoint) for a file that is
/// damaged or names a folder that no run of this user makes.
[[nodiscard]] MemoryIdentity identity_of(const std::filesystem::path& run);
/// False for a run folder that was copied or moved with its file: the identity is that of the run left there.
[[nodiscard]] bool is_of(const MemoryIdentity& identity, const std::filesystem::path& run);

/// A run's folder in the memory of this node. Its users are the ranks of one job on one node; the first of
/// them holds its lock. Whatever stands at its path later, this process works in the folder that it checked
/// (pinned.h), also after this object is gone.
class MemoryFolder {
 public:
  /// Makes what is missing, with mode 0700. Throws Error(kUsage) where a part belongs to another user, is a
  /// link, or can be entered by others. `lead`: also takes the lock, and removes everything if it is of
  /// another run of that name.
  MemoryFolder(MemoryIdentity identity, bool lead);

  /// Before a save: if the folder has vanished, or something else stands in its place, makes it anew as the
  /// constructor does, and warns on the lead. Throws what the constructor throws.
  void renew();

  [[nodiscard]] const std::filesystem::path& path() const { return identity_.folder; }
  [[nodiscard]] const std::string& id() const { return identity_.id; }
  [[nodiscard]] std::filesystem::path step(std::int64_t step, const std::string& save_id) const;

  /// What its memory checkpoints take.
  [[nodiscard]] std::uint64_t bytes() const;
  /// Removes every step folder but those named, and what interrupted work left. Never throws: warns.
  void keep_only(const std::vector<std::string>& names) const noexcept;
  /// Removes the run's folder with everything in it. Never throws: warns.
  void remove() const noexcept;

 private:
  void enter();

  MemoryIdentity identity_;
  bool lead_;
  fs::Fd lock_;
};

/// Folders of other runs of this user in `memory_dir` that nobody holds and that nobody has changed for
/// `older_than_s` seconds: what killed jobs left. Removes them; returns what it removed.
std::vector<std::filesystem::path> remove_old_memory(const std::filesystem::path& memory_dir,
                                                     std::int64_t older_than_s) noexcept;

/// Removes what is at `path`. Never throws: warns.
void remove_memory(const std::filesystem::path& path) noexcept;

/// Is the run's folder in the memory of this node in use? False if there is none. From then on this process
/// works below the user's folder that it checked. Throws Error(kUsage) for one that is not private.
[[nodiscard]] bool memory_in_use(const std::filesystem::path& folder);

/// Is the run's folder, of which this process has a MemoryFolder, no longer at its path?
[[nodiscard]] bool memory_vanished(const std::filesystem::path& folder);

/// What `folder` can still take, what the machine has, and what its control groups leave this process: the
/// least of them. Throws Error(kUsage).
[[nodiscard]] std::uint64_t memory_left(const std::filesystem::path& folder);

}  // namespace echelon::checkpoint
