#include "checkpoint/folder/contents.h"

#include <algorithm>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/model_name.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

// "runs/x/" has an empty last part.
std::string last_part(const Path& folder) {
  return folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string();
}

}  // namespace

std::string quoted(const Path& path) {
  return str('\'', path.string(), '\'');
}

Manifest load_manifest(const Path& folder) {
  const Path commit_path = folder / kCommitFile;
  if (!entry_exists(commit_path)) {
    throw Error(Code::kCheckpoint, "checkpoint ", quoted(folder),
                entry_exists(folder) ? " was never committed (it has no file COMMIT): its "
                                       "save did not finish; use an earlier one"
                                     : " does not exist");
  }
  const Commit commit = parse_commit(read_input(commit_path, kMaxCommitBytes), quoted(commit_path));
  const Path path = folder / kManifestFile;
  const std::string text = read_input(path, kMaxManifestBytes);
  if (text.size() != commit.manifest_bytes || crc32c(text) != commit.manifest_crc) {
    throw Error(Code::kCheckpoint, quoted(path), " is damaged: ", text.size(), " bytes with checksum ",
                checksum_text(crc32c(text)), "; COMMIT states ", commit.manifest_bytes, " with ",
                checksum_text(commit.manifest_crc));
  }
  Manifest manifest = parse_manifest(text, quoted(path));
  if (manifest.step != commit.step || manifest.save_id != commit.save_id ||
      manifest.format_minor != commit.format_minor) {
    throw Error(Code::kCheckpoint, quoted(commit_path), " is of step ", commit.step, ", save ",
                commit.save_id, ", format ", kFormatMajor, '.', commit.format_minor,
                ", but MANIFEST.json of step ", manifest.step, ", save ", manifest.save_id, ", format ",
                kFormatMajor, '.', manifest.format_minor);
  }
  const auto name = parse_step_folder(last_part(folder));
  if (name && (name->step != manifest.step || name->save_id != manifest.save_id)) {
    throw Error(Code::kCheckpoint, "folder ", quoted(folder), " holds the checkpoint ",
                step_folder_name(manifest.step, manifest.save_id), ": it was renamed or swapped");
  }
  return manifest;
}

namespace {

/// Up to this size an index is as fast to read whole as in parts.
constexpr std::uint64_t kSmallIndexBytes = std::uint64_t{64} << 10;

/// A shard that must have `bytes` bytes (0: any number).
InputFile open_shard(const Path& path, const std::string& what, std::uint64_t bytes) {
  InputFile file = open_input(path);
  if (bytes != 0 && file.bytes != bytes) {
    throw Error(Code::kCheckpoint, what, " has ", file.bytes, " bytes, expected ", bytes, ": it was ",
                file.bytes < bytes ? "cut short" : "extended");
  }
  return file;
}

/// `block`: from the first byte of the file on.
IndexHead head_of(const InputFile& file, std::span<const std::byte> block, const std::string& what) {
  const IndexHead head = decode_index_head(block.first(std::min(block.size(), kIndexHeaderBytes)), what);
  if (head.file_bytes != file.bytes || head.index_bytes > file.bytes) {
    throw Error(Code::kCheckpoint, what, ": its index is damaged (states a file of ", head.file_bytes,
                " bytes)");
  }
  return head;
}

/// Extends `block` to the first `end` bytes of the file, or truncates it to them.
void extend(std::vector<std::byte>& block, std::uint64_t end, const InputFile& file, const Path& path) {
  const std::size_t known = std::min<std::uint64_t>(block.size(), end);
  block.resize(end);
  fs::read_at(file.fd, known, std::span(block).subspan(known), Code::kCheckpoint, path);
}

/// The user block.
std::vector<std::byte> read_index(const Path& path, const std::string& what, std::uint64_t bytes) {
  const InputFile file = open_shard(path, what, bytes);
  std::vector<std::byte> block;
  extend(block, std::min<std::uint64_t>(file.bytes, kIndexHeaderBytes), file, path);
  extend(block, head_of(file, block, what).index_bytes, file, path);
  return block;
}

/// A shard of a manifest, and where it is.
struct Wanted {
  const Manifest& manifest;
  std::size_t rank;
  Path path;
  std::string what;  ///< for errors

  Wanted(const Path& folder, const Manifest& of, std::size_t number)
      : manifest(of), rank(number), path(folder / shard().file), what(str("shard ", quoted(path))) {
    if (!entry_exists(path)) throw Error(Code::kCheckpoint, what, " (rank ", rank, ") is missing");
  }
  [[nodiscard]] const ManifestShard& shard() const { return manifest.shards.at(rank); }
};

ShardIndex require_place(ShardIndex index, const Wanted& wanted) {
  const Manifest& manifest = wanted.manifest;
  if (index.save_id != manifest.save_id) {
    throw Error(Code::kCheckpoint, wanted.what, " belongs to save ", index.save_id, ", not to ",
                manifest.save_id, ": a stale file");
  }
  const auto ranks = static_cast<int>(manifest.shards.size());
  if (index.rank != static_cast<int>(wanted.rank) || index.ranks != ranks) {
    throw Error(Code::kCheckpoint, wanted.what, " is of rank ", index.rank, " of ", index.ranks,
                ", expected rank ", wanted.rank, " of ", ranks, ": files were swapped");
  }
  return index;
}

ShardIndex whole_index(std::span<const std::byte> block, const Wanted& wanted) {
  ShardIndex index = require_place(decode_index(block, wanted.what), wanted);
  // decode_index() has checked the index against its own checksum; this checks that it is the committed
  // one.
  if (index_crc(block) != wanted.shard().index_crc) {
    throw Error(Code::kCheckpoint, wanted.what, ": its index (bytes 0 to ", block.size(),
                ") is not the one that was committed");
  }
  return index;
}

}  // namespace

ManifestShard describe_shard(const Path& folder, const std::string& name) {
  const std::vector<std::byte> block = read_index(folder / name, str("shard ", quoted(folder / name)), 0);
  return {.file = name,
          .bytes = decode_index_head(std::span(block).first(kIndexHeaderBytes), name).file_bytes,
          .index_crc = index_crc(block)};
}

ShardIndex load_shard_index(const Path& folder, const Manifest& manifest, std::size_t rank) {
  const Wanted wanted(folder, manifest, rank);
  return whole_index(read_index(wanted.path, wanted.what, wanted.shard().bytes), wanted);
}

namespace {

/// The list of pieces in a shard. A small index is read and checked whole. Of a larger one the block
/// checksums are skipped, so its own checksum cannot be verified; instead, the tensor checksums combined from
/// the pieces must equal those of the manifest (check_digests).
ShardIndex load_shard_table(const Wanted& wanted) {
  const InputFile file = open_shard(wanted.path, wanted.what, wanted.shard().bytes);
  std::vector<std::byte> block;
  extend(block, std::min(file.bytes, kSmallIndexBytes), file, wanted.path);
  const IndexHead head = head_of(file, block, wanted.what);
  if (head.index_bytes <= block.size()) return whole_index(std::span(block).first(head.index_bytes), wanted);
  const IndexTable table = find_table(std::span(block).first(kIndexHeaderBytes), wanted.what);
  extend(block, table.entries_end, file, wanted.path);
  std::vector<std::byte> names(table.names_end - table.names);
  fs::read_at(file.fd, table.names, names, Code::kCheckpoint, wanted.path);
  block.insert(block.end(), names.begin(), names.end());
  return require_place(decode_table(block, wanted.what), wanted);
}

Coverage covered(const std::vector<TensorInfo>& tensors, const std::vector<ShardIndex>& shards) {
  Coverage coverage(tensors);
  for (const ShardIndex& shard : shards) coverage.add(shard.rank, shard.entries);
  coverage.prove();
  return coverage;
}

void check_digests(const Manifest& manifest, const Coverage& coverage) {
  if (manifest.digests.empty()) return;
  const std::vector<TensorDigest> found = coverage.digests();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == manifest.digests[i]) continue;
    throw Error(Code::kCheckpoint, "tensor '", manifest.tensors[i].name,
                "': the checksums of its pieces do not combine to the manifest's");
  }
}

}  // namespace

std::vector<TensorDigest> digests_of(const std::vector<TensorInfo>& tensors,
                                     const std::vector<ShardIndex>& shards) {
  return covered(tensors, shards).digests();
}

void check_digests(const Manifest& manifest, const std::vector<ShardIndex>& shards) {
  check_digests(manifest, covered(manifest.tensors, shards));
}

Contents load_contents(const Path& folder) {
  Contents contents{.folder = folder, .manifest = load_manifest(folder)};
  const Manifest& manifest = contents.manifest;
  for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank)
    contents.shards.push_back(load_shard_index(folder, manifest, rank));
  in_context(str("checkpoint ", quoted(folder)),
             [&] { check_digests(manifest, covered(manifest.tensors, contents.shards)); });
  return contents;
}

Outline outline_of(const Contents& contents) {
  return {contents.folder, contents.manifest, covered(contents.manifest.tensors, contents.shards).take()};
}

bool is_step_folder(const Path& folder) {
  return parse_step_folder(last_part(folder)).has_value() || entry_exists(folder / kCommitFile) ||
         entry_exists(folder / kManifestFile);
}

Path checkpoints_folder(const Path& folder) {
  const Path inside = folder / "checkpoints";
  return is_folder(inside) ? inside : folder;
}

namespace {

std::string imported_name(const Path& folder) {
  return quoted(Path(folder.has_filename() ? folder : folder.parent_path()).concat("-imported"));
}

}  // namespace

std::string other_kind_of(const Path& folder) {
  if (entry_exists(folder / "adapter_config.json") && !is_step_folder(folder))
    return str("; it holds an adapter of peft: echelon-ckpt import ", quoted(folder),
               " --base FOLDER --output ", imported_name(folder), " makes a checkpoint of it");
  if (is_step_folder(folder) || is_folder(folder / "checkpoints"))
    return "; it is a run or a checkpoint: name it in checkpoint.init_from, or export it";
  return "";
}

namespace {

Outline load_outline(const Path& folder) {
  Outline outline{.folder = folder, .manifest = load_manifest(folder)};
  const Manifest& manifest = outline.manifest;
  Coverage coverage(manifest.tensors);
  const std::string context = str("checkpoint ", quoted(folder));
  for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank) {
    const ShardIndex index = load_shard_table(Wanted(folder, manifest, rank));
    in_context(context, [&] { coverage.add(index.rank, index.entries); });
  }
  in_context(context, [&] {
    coverage.prove();
    check_digests(manifest, coverage);
  });
  outline.pieces = coverage.take();
  return outline;
}

/// Commits of a run or checkpoints folder, newest first, including damaged ones.
std::vector<Found> commits_of(const Path& folder) {
  if (!is_folder(folder))
    throw Error(Code::kCheckpoint, "no checkpoint ", quoted(folder),
                ": there is no such folder; name a run folder or a step folder",
                fs::download_advice(folder, "; "));
  warn_of_linked_steps(checkpoints_folder(folder));
  std::vector<Found> commits = list(checkpoints_folder(folder));
  // A folder with COMMIT that does not check out stays in the list: it must be reported, not skipped
  // silently.
  std::erase_if(commits, [](const Found& found) { return !found.committed && found.problem.empty(); });
  if (commits.empty() && entry_exists(folder / "config.json")) {
    throw Error(
        Code::kCheckpoint, quoted(folder),
        " is a Hugging Face folder, not a checkpoint; name it in a recipe's model.from, or import it: "
        "echelon-ckpt import ",
        quoted(folder), " --output ", imported_name(folder), "; then name ", imported_name(folder));
  }
  if (commits.empty()) {
    throw Error(Code::kCheckpoint, "no committed checkpoint in ", quoted(checkpoints_folder(folder)),
                "; name a run folder or a step folder",
                is_folder(folder / "checkpoints") ? "" : other_kind_of(folder));
  }
  std::ranges::reverse(commits);
  return commits;
}

}  // namespace

Path newest_commit(const Path& folder) {
  return is_step_folder(folder) ? folder : commits_of(folder).front().folder;
}

Outline open_newest(const Path& folder) {
  if (is_step_folder(folder)) return load_outline(folder);
  std::string first_problem;
  for (const Found& found : commits_of(folder)) {
    try {
      return load_outline(found.folder);
    } catch (const Error& e) {
      if (e.is_of_system()) throw;  // it may be whole
      if (first_problem.empty()) first_problem = e.what();
      log::warn(str("checkpoint ", quoted(found.folder),
                    " is DAMAGED and is skipped, trying the previous one: ", e.what()));
    }
  }
  throw Error(Code::kCheckpoint, "no whole checkpoint in ", quoted(folder), "; newest: ", first_problem);
}

std::string load_attachment(const Path& folder, const Manifest& manifest, const std::string& name) {
  const auto found = manifest.attachments.find(name);
  if (found == manifest.attachments.end()) {
    throw Error(Code::kCheckpoint, "checkpoint ", quoted(folder), " has no attachment '", name, "'");
  }
  const Path path = folder / name;
  std::string content = read_input(path, kMaxAttachmentBytes);
  if (content.size() != found->second.bytes || crc32c(content) != found->second.crc) {
    throw Error(Code::kCheckpoint, "attachment ", quoted(path), " is damaged: its size or checksum differs");
  }
  return content;
}

std::string load_attachment(const Path& folder, const std::string& name) {
  return load_attachment(folder, load_manifest(folder), name);
}

}  // namespace echelon::checkpoint
