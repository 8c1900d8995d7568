#include "checkpoint/memory/memory_note.h"

#include <algorithm>
#include <charconv>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/kill_point.h"
#include "base/files/new_file.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr std::uint64_t kMaxNoteBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxShardBytes = std::uint64_t{1} << 56;

/// Drops the shards that are not what the note says; returns why.
std::string check_shards(const Path& folder, MemoryNote& note) {
  std::string problem;
  Manifest expected{.save_id = note.save_id};
  expected.shards.resize(static_cast<std::size_t>(note.ranks));
  std::erase_if(note.shards, [&](const HeldShard& shard) {
    try {
      const auto rank = static_cast<std::size_t>(shard.rank);
      expected.shards[rank] = {shard_file_name(shard.rank, note.ranks), shard.bytes, shard.index_crc};
      (void)load_shard_index(folder, expected, rank);
      return false;
    } catch (const Error& e) {
      if (e.is_of_system()) throw;  // it may be whole
      if (problem.empty()) problem = e.what();
      return true;
    }
  });
  return problem;
}

}  // namespace

std::string info_text(const CommitInfo& info) {
  // Format 1.0 is the one whose manifest has no checksums of tensors.
  Manifest manifest{.format_minor = 0,
                    .step = info.step,
                    .save_id = info.save_id,
                    .resumed_from = info.resumed_from,
                    .tensors = info.tensors,
                    .trainer_state = info.trainer_state};
  std::ranges::sort(manifest.tensors, {}, &TensorInfo::name);
  for (int rank = 0; rank < info.ranks; ++rank)
    manifest.shards.push_back({.file = shard_file_name(rank, info.ranks)});
  std::string files;
  for (const auto& [name, content] : info.attachments) {
    manifest.attachments[name] = {.bytes = content.size(), .crc = crc32c(content)};
    files += content;
  }
  const std::string text = manifest_text(manifest);
  return str(text.size(), '\n') + text + files;
}

CommitInfo parse_info(const std::string& text, const std::string& what) {
  const auto damaged = [&] { return Error(Code::kCheckpoint, what, " is damaged"); };
  const std::size_t line = text.find('\n');
  if (line == 0 || line == text.npos || line > 9) throw damaged();
  std::size_t length = 0;
  const auto read = std::from_chars(text.data(), text.data() + line, length);
  if (read.ptr != text.data() + line || text.size() - line - 1 < length) throw damaged();
  const Manifest manifest = parse_manifest(std::string_view(text).substr(line + 1, length), what);
  CommitInfo info{.step = manifest.step,
                  .save_id = manifest.save_id,
                  .ranks = static_cast<int>(manifest.shards.size()),
                  .tensors = manifest.tensors,
                  .trainer_state = manifest.trainer_state,
                  .resumed_from = manifest.resumed_from};
  std::size_t at = line + 1 + length;
  for (const auto& [name, file] : manifest.attachments) {
    if (text.size() - at < file.bytes) throw damaged();
    std::string content = text.substr(at, file.bytes);
    if (crc32c(content) != file.crc) throw damaged();
    at += file.bytes;
    info.attachments.emplace(name, std::move(content));
  }
  if (at != text.size()) throw damaged();
  return info;
}

std::string note_text(const MemoryNote& note) {
  Json shards = Json::array();
  for (const HeldShard& shard : note.shards) {
    shards.push_back(
        {{"rank", shard.rank}, {"bytes", shard.bytes}, {"index_crc32c", checksum_text(shard.index_crc)}});
  }
  return canonical_text({{"run", note.run_id},
                         {"step", note.step},
                         {"save_id", note.save_id},
                         {"world_size", note.ranks},
                         {"commits_up_to", note.newest_commit + 1},
                         {"info", {{"bytes", note.info_bytes}, {"crc32c", checksum_text(note.info_crc)}}},
                         {"shards", std::move(shards)}});
}

MemoryNote parse_note(const std::string& source, const std::string& what) {
  const Json root = parse_json(source, what);
  const Json& info = member(root, "info", what);
  MemoryNote note{
      .run_id = text(root, "run", what),
      .step = static_cast<std::int64_t>(number(root, "step", kMaxStep, what)),
      .save_id = text(root, "save_id", what),
      .ranks = static_cast<int>(number(root, "world_size", kMaxRanks, what)),
      .newest_commit = static_cast<std::int64_t>(number(root, "commits_up_to", kMaxStep + 1, what)) - 1,
      .info_bytes = number(info, "bytes", kMaxInfoBytes, what),
      .info_crc = checksum(info, "crc32c", what)};
  const Json& shards = member(root, "shards", what);
  if (!is_save_id(note.save_id) || !shards.is_array()) throw Error(Code::kCheckpoint, what, " is damaged");
  int last = -1;
  for (const Json& json : shards) {
    const HeldShard shard{.rank = static_cast<int>(number(json, "rank", kMaxRanks, what)),
                          .bytes = number(json, "bytes", kMaxShardBytes, what),
                          .index_crc = checksum(json, "index_crc32c", what)};
    if (shard.rank <= last || shard.rank >= note.ranks)
      throw Error(Code::kCheckpoint, what, " is damaged: shard ", shard.rank, " of ", note.ranks);
    last = shard.rank;
    note.shards.push_back(shard);
  }
  if (note_text(note) != source) throw Error(Code::kCheckpoint, what, " is damaged: its spelling differs");
  return note;
}

void write_note(const Path& step_folder, const std::string& run_id, const std::string& info,
                std::int64_t newest_commit, const std::vector<int>& held) {
  const CommitInfo parsed = parse_info(info, "INFO");
  MemoryNote note{.run_id = run_id,
                  .step = parsed.step,
                  .save_id = parsed.save_id,
                  .ranks = parsed.ranks,
                  .newest_commit = newest_commit,
                  .info_bytes = info.size(),
                  .info_crc = crc32c(info)};
  for (const int rank : held) {
    const ManifestShard shard = describe_shard(step_folder, shard_file_name(rank, parsed.ranks));
    note.shards.push_back({.rank = rank, .bytes = shard.bytes, .index_crc = shard.index_crc});
  }
  // Nothing is flushed: what lies in memory does not outlive the machine anyway.
  fs::replace_file(step_folder / kInfoFile, info, Code::kCheckpoint);
  kill_point("memory_note");
  fs::replace_file(step_folder / kNodeFile, note_text(note), Code::kCheckpoint);
}

std::vector<FoundNote> find_notes(const Path& run_folder, const std::string& run_id,
                                  std::vector<std::string>& left_out) {
  std::vector<FoundNote> notes;
  for (const Path& folder : fs::list_folder(run_folder, Code::kCheckpoint)) {
    const auto name = parse_step_folder(folder.filename().string());
    if (!name || !is_real_folder(folder)) continue;
    try {
      const Path file = folder / kNodeFile;
      if (!entry_exists(file))
        throw Error(Code::kCheckpoint, "memory checkpoint ", quoted(folder),
                    " is incomplete on this node: it was being written, or removed");
      FoundNote found{.folder = folder, .note = parse_note(read_input(file, kMaxNoteBytes), quoted(file))};
      MemoryNote& note = found.note;
      if (note.run_id != run_id || note.step != name->step || note.save_id != name->save_id) {
        throw Error(Code::kCheckpoint, quoted(file), " is of step ", note.step, ", save ", note.save_id,
                    ", run ", note.run_id, ": a stale file");
      }
      const std::string info = read_input(folder / kInfoFile, kMaxInfoBytes);
      if (info.size() != note.info_bytes || crc32c(info) != note.info_crc)
        throw Error(Code::kCheckpoint, quoted(folder / kInfoFile), " is damaged");
      found.problem = check_shards(folder, note);
      notes.push_back(std::move(found));
    } catch (const Error& e) {
      if (e.is_of_system()) throw;
      left_out.emplace_back(e.what());
    }
  }
  std::ranges::stable_sort(notes,
                           [](const FoundNote& a, const FoundNote& b) { return a.note.step > b.note.step; });
  return notes;
}

}  // namespace echelon::checkpoint
