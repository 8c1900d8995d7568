#include "checkpoint/format/manifest.h"

#include "base/error.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 56;

Json format_json(int minor) {
  return {{"major", kFormatMajor}, {"minor", minor}};
}

/// Returns the minor version; refuses another major one.
int parse_format(const Json& root, const std::string& what) {
  const Json& format = member(root, "format", what);
  const std::uint64_t major = number(format, "major", 65535, what);
  const std::uint64_t minor = number(format, "minor", 65535, what);
  if (major != kFormatMajor) {
    throw Error(Code::kCheckpoint, what, " has checkpoint format ", major, '.', minor,
                "; this program reads format ", kFormatMajor,
                ".x: use the version that wrote it, or a newer one");
  }
  return static_cast<int>(minor);
}

std::vector<ManifestShard> parse_shards(const Json& root, const std::string& what) {
  const Json& list = list_of(root, "shards", kMaxRanks, what);
  std::vector<ManifestShard> shards;
  for (const Json& json : list) {
    ManifestShard shard{.file = text(json, "file", what),
                        .bytes = number(json, "bytes", kMaxFileBytes, what),
                        .index_crc = checksum(json, "index_crc32c", what)};
    const std::string expected =
        shard_file_name(static_cast<int>(shards.size()), static_cast<int>(list.size()));
    // The name is redundant; requiring it means that no path from the file is ever used.
    if (shard.file != expected) {
      throw Error(Code::kCheckpoint, what, ": shard ", shards.size(), " must be called '", expected, "'");
    }
    shards.push_back(std::move(shard));
  }
  if (shards.empty() || number(root, "world_size", kMaxRanks, what) != shards.size()) {
    throw Error(Code::kCheckpoint, what, ": 'world_size' and the number of shards (", shards.size(),
                ") disagree");
  }
  return shards;
}

std::map<std::string, ManifestAttachment> parse_attachments(const Json& root, const std::string& what) {
  const Json& files = member(root, "attachments", what);
  if (!files.is_object()) throw Error(Code::kCheckpoint, what, ": 'attachments' must be an object");
  std::map<std::string, ManifestAttachment> attachments;
  for (const auto& [name, json] : files.items()) {
    if (const std::string problem = attachment_name_problem(name); !problem.empty()) {
      throw Error(Code::kCheckpoint, what, ": an attachment's name ", problem);
    }
    attachments[name] = {.bytes = number(json, "bytes", kMaxAttachmentBytes, what),
                         .crc = checksum(json, "crc32c", what)};
  }
  return attachments;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  Json root = {{"format", format_json(manifest.format_minor)},
               {"step", manifest.step},
               {"save_id", manifest.save_id},
               {"world_size", manifest.shards.size()},
               {"versions", manifest.versions},
               {"attachments", Json::object()},
               {"shards", Json::array()},
               {"tensors", Json::array()}};
  if (!manifest.resumed_from.empty()) root["resumed_from"] = manifest.resumed_from;
  root["trainer_state"] = parse_json(manifest.trainer_state, "trainer state");
  if (!root["trainer_state"].is_object())
    throw Error(Code::kCheckpoint, "trainer state: expected a JSON object");
  for (const auto& [name, file] : manifest.attachments) {
    root["attachments"][name] = {{"bytes", file.bytes}, {"crc32c", checksum_text(file.crc)}};
  }
  for (const ManifestShard& shard : manifest.shards) {
    root["shards"].push_back(
        {{"file", shard.file}, {"bytes", shard.bytes}, {"index_crc32c", checksum_text(shard.index_crc)}});
  }
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    Json json = tensor_json(manifest.tensors[i]);
    if (!manifest.digests.empty()) {
      json["crc32c"] = checksum_text(manifest.digests[i].crc);
      json["crc64nvme"] = fingerprint_text(manifest.digests[i].fingerprint);
    }
    root["tensors"].push_back(std::move(json));
  }
  return canonical_text(root);
}

Manifest parse_manifest(std::string_view source, const std::string& what) {
  if (source.size() > kMaxManifestBytes) throw Error(Code::kCheckpoint, what, ": larger than 64 MiB");
  const Json root = parse_json(source, what);
  const int minor = parse_format(root, what);
  Manifest manifest{.format_minor = minor,
                    .step = static_cast<std::int64_t>(number(root, "step", kMaxStep, what)),
                    .save_id = save_id_of(root, "save_id", what),
                    .shards = parse_shards(root, what),
                    .attachments = parse_attachments(root, what)};
  if (root.contains("resumed_from")) manifest.resumed_from = save_id_of(root, "resumed_from", what);
  for (const Json& json : list_of(root, "tensors", kMaxTensorsListed, what)) {
    manifest.tensors.push_back(parse_tensor(json, what));
    if (minor == 0) continue;
    manifest.digests.push_back({checksum(json, "crc32c", what), fingerprint(json, "crc64nvme", what)});
  }
  in_context(what, [&] { check_tensors(manifest.tensors); });
  const Json& state = member(root, "trainer_state", what);
  if (!state.is_object()) throw Error(Code::kCheckpoint, what, ": 'trainer_state' must be an object");
  manifest.trainer_state = state.dump();
  for (const auto& [program, version] : member(root, "versions", what).items()) {
    if (version.is_string()) manifest.versions[program] = version.get<std::string>();
  }
  return manifest;
}

std::string commit_text(const Commit& commit) {
  return canonical_text(
      {{"format", format_json(commit.format_minor)},
       {"step", commit.step},
       {"save_id", commit.save_id},
       {"manifest", {{"bytes", commit.manifest_bytes}, {"crc32c", checksum_text(commit.manifest_crc)}}}});
}

Commit parse_commit(std::string_view source, const std::string& what) {
  if (source.size() > kMaxCommitBytes) throw Error(Code::kCheckpoint, what, ": larger than 4 KiB");
  const Json root = parse_json(source, what);
  const int minor = parse_format(root, what);
  const Json& manifest = member(root, "manifest", what);
  const Commit commit{.format_minor = minor,
                      .step = static_cast<std::int64_t>(number(root, "step", kMaxStep, what)),
                      .save_id = save_id_of(root, "save_id", what),
                      .manifest_bytes = number(manifest, "bytes", kMaxManifestBytes, what),
                      .manifest_crc = checksum(manifest, "crc32c", what)};
  // Anything else could hide a flipped bit in a place that the parser ignores, such as white space or an
  // unknown key.
  if (canonical_text(root) != source)
    throw Error(Code::kCheckpoint, what, ": not in the form this program writes; it was edited or damaged");
  return commit;
}

}  // namespace echelon::checkpoint
