#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace echelon {

/// Files in a run's logs/ that `echelon supervise` reads while ranks leave. A failed write is only a warning,
/// because the run is already ending.

/// A rank or node that was lost.
struct LostPeer {
  std::string sentence;
  double failed_s = 0;        ///< when it failed, seconds since 1970
  std::int64_t step = 0;      ///< under way; 0: none yet
  int rank = 0;               ///< that failed, or one of the node that did
  std::string host;           ///< of that rank
  bool node_suspect = false;  ///< the next start should exclude the node
  /// A rank that only knows that rank 0 is lost is not certain: it may itself be cut off.
  bool certain = true;

  friend bool operator==(const LostPeer&, const LostPeer&) = default;
};

/// Writes peer-failure.txt, two lines:
///   EPOCH_SECONDS JOB START sentence
///   failed EPOCH_SECONDS step STEP rank RANK node HOST suspect 0|1 [token TOKEN]
/// TOKEN is ECHELON_NOTE_TOKEN, by which the supervisor knows that the note is of its ranks.
/// START is SLURM_RESTART_COUNT, followed by .N in the Nth restart in place; "-" stands for no STEP. A
/// failure that is not certain does not overwrite the text of another rank of the same start.
void note_peer_failure(const std::filesystem::path& logs, const LostPeer& failure);

/// The failure in peer-failure.txt, if it is of the start `start` ("JOB START") and has its `token`. Others
/// may be able to write there: anything else than such a note is ignored. Looks into the folder first,
/// because a file system that is shared over a network shows new files then.
[[nodiscard]] std::optional<LostPeer> noted_peer_failure(const std::filesystem::path& logs,
                                                         const std::string& start, const std::string& token);

/// Appends to suspects.txt: "EPOCH_SECONDS HOST JOB sentence". The next start excludes the node.
void note_suspect(const std::filesystem::path& logs, const std::string& host, const std::string& sentence);

}  // namespace echelon
