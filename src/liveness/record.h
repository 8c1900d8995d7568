#pragma once
#include <filesystem>
#include <string>

namespace echelon {

/// Files of a run's logs/ that outlive the job and are read by the batch script. Failing to write them is a
/// warning: the run ends for another reason already.

/// Writes peer-failure.txt: "EPOCH_SECONDS JOB RESTART sentence". One who only knows that rank 0 is lost may
/// be the lost one itself: not `certain`, it lets stand what another rank of the same start has written.
void note_peer_failure(const std::filesystem::path& logs, const std::string& sentence, bool certain);

/// Adds to suspects.txt: "EPOCH_SECONDS HOST JOB sentence". The next start leaves the node out.
void note_suspect(const std::filesystem::path& logs, const std::string& host, const std::string& sentence);

}  // namespace echelon
