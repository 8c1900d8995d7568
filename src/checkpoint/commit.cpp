#include <algorithm>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/str.h"
#include "checkpoint/contents.h"
#include "checkpoint/files.h"
#include "checkpoint/geometry.h"
#include "checkpoint/h5_layout.h"
#include "checkpoint/names.h"
#include "checkpoint/writer.h"

namespace echelon::checkpoint {
namespace {

std::uint32_t crc_of(const std::string& text) {
  return crc32c(std::as_bytes(std::span(text)));
}

/// One shard a rank, by rank.
std::vector<ManifestShard> order_shards(std::span<const ShardSummary> summaries) {
  const int ranks = static_cast<int>(summaries.size());
  std::vector<ManifestShard> shards(summaries.size());
  for (const ShardSummary& summary : summaries) {
    if (summary.rank < 0 || summary.rank >= ranks) {
      throw Error(Code::kCheckpoint,
                  str("a shard of rank ", summary.rank, " among the shards of ", ranks, " ranks"));
    }
    ManifestShard& shard = shards[static_cast<std::size_t>(summary.rank)];
    if (!shard.file.empty()) throw Error(Code::kCheckpoint, str("two shards of rank ", summary.rank));
    shard = {summary.file, summary.file_bytes, summary.index_crc};
    if (summary.file != shard_file_name(summary.rank, ranks)) {
      throw Error(Code::kCheckpoint, str("rank ", summary.rank, " wrote '", summary.file, "', expected '",
                                         shard_file_name(summary.rank, ranks), "'"));
    }
  }
  return shards;
}

/// What the ranks reported, against what must be there: needs no file, so a hole shows before anything is
/// read.
void check_reports_cover(const std::vector<TensorInfo>& tensors, std::span<const ShardSummary> summaries) {
  std::map<std::string_view, std::vector<Range>> pieces;
  for (const TensorInfo& tensor : tensors) pieces[tensor.name];
  for (const ShardSummary& summary : summaries) {
    for (const ShardSummary::Piece& piece : summary.pieces) {
      const auto found = pieces.find(piece.tensor);
      if (found == pieces.end()) {
        throw Error(Code::kCheckpoint, str("rank ", summary.rank, " stores tensor '", piece.tensor,
                                           "', which the checkpoint does not have"));
      }
      found->second.push_back({piece.begin, piece.end, summary.rank});
    }
  }
  for (const TensorInfo& tensor : tensors)
    prove_coverage(tensor.name, element_count(tensor), pieces[tensor.name]);
}

/// Reads back every shard's index: sees what each rank believes to have written from here, too.
void check_shards(const std::filesystem::path& folder, const Manifest& manifest) {
  std::vector<ShardIndex> indexes;
  const int ranks = static_cast<int>(manifest.shards.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const ManifestShard& shard = manifest.shards[static_cast<std::size_t>(rank)];
    if (!entry_exists(folder / shard.file)) {
      throw Error(Code::kCheckpoint,
                  str("rank ", rank, " wrote '", shard.file, "', but it cannot be seen from the committing ",
                      "rank: is the run folder on a file system that all nodes share?"));
    }
    indexes.push_back(load_shard_index(folder, shard, rank, ranks, manifest.save_id));
  }
  check_shards_cover(manifest.tensors, indexes);
}

void publish(const std::filesystem::path& folder, const CommitInfo& info, Manifest& manifest) {
  for (const auto& [name, content] : info.attachments) {
    fs::publish_file(folder / name, content, Code::kCheckpoint);
    manifest.attachments[name] = {content.size(), crc_of(content)};
  }
  const std::string text = manifest_text(manifest);
  if (text.size() > kMaxManifestBytes) {
    throw Error(Code::kCheckpoint, str("MANIFEST.json would have ", text.size(), " bytes, at most ",
                                       kMaxManifestBytes, " can be read back: shorten the trainer state"));
  }
  (void)parse_manifest(text, "MANIFEST.json");  // never commit what a reader would refuse
  fs::publish_file(folder / kManifestFile, text, Code::kCheckpoint);
  // The folder's own name must be durable before the commit is.
  const auto parent = std::filesystem::absolute(folder).lexically_normal().parent_path();
  fs::fsync_directory(parent, Code::kCheckpoint);
  const Commit commit{.step = info.step,
                      .save_id = info.save_id,
                      .manifest_bytes = text.size(),
                      .manifest_crc = crc_of(text)};
  fs::publish_file(folder / kCommitFile, commit_text(commit), Code::kCheckpoint);
}

}  // namespace

void commit(const std::filesystem::path& folder, const CommitInfo& info,
            std::span<const ShardSummary> shards) {
  in_context(str("cannot commit checkpoint '", folder.string(), "'"), [&] {
    const std::string expected = step_folder_name(info.step, info.save_id);
    if (folder.filename() != expected) {
      throw Error(Code::kCheckpoint, str("step ", info.step, ", save ", info.save_id,
                                         " belongs into a folder '", expected, "'"));
    }
    for (const auto& [name, content] : info.attachments) {
      if (const std::string problem = attachment_name_problem(name); !problem.empty()) {
        throw Error(Code::kCheckpoint, str("attachment name '", name, "' ", problem));
      }
      if (content.size() > kMaxAttachmentBytes) {
        throw Error(Code::kCheckpoint,
                    str("attachment '", name, "' is larger than ", human_bytes(kMaxAttachmentBytes)));
      }
    }
    check_tensors(info.tensors);
    Manifest manifest{.step = info.step,
                      .save_id = info.save_id,
                      .shards = order_shards(shards),
                      .tensors = info.tensors,
                      .trainer_state = info.trainer_state,
                      .versions = {{"hdf5", h5_version()}}};
    std::sort(manifest.tensors.begin(), manifest.tensors.end(),
              [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
    check_reports_cover(manifest.tensors, shards);
    check_shards(folder, manifest);
    publish(folder, info, manifest);
  });
}

}  // namespace echelon::checkpoint
