#pragma once
#include <filesystem>
#include <string>

namespace echelon {

/// Files in a run's logs/ that the batch script reads after the job. A failed write is only a warning,
/// because the run is already ending.

/// Writes peer-failure.txt: "EPOCH_SECONDS JOB RESTART sentence". If not `certain`, does not overwrite the
/// sentence of another rank of the same start. A rank that only knows that rank 0 is lost is not certain: it
/// may itself be cut off.
void note_peer_failure(const std::filesystem::path& logs, const std::string& sentence, bool certain);

/// Appends to suspects.txt: "EPOCH_SECONDS HOST JOB sentence". The next start excludes the node.
void note_suspect(const std::filesystem::path& logs, const std::string& host, const std::string& sentence);

}  // namespace echelon
