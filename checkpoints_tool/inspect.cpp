#include <algorithm>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/foreign_text.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/json.h"
#include "checkpoint/read/base_note.h"
#include "checkpoint/read/reader.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/hugging_face_folder.h"

namespace echelon::tool {
namespace {

using checkpoint::BaseNote;
using checkpoint::Contents;
using checkpoint::Reader;
using checkpoint::TensorInfo;
using OrderedJson = nlohmann::ordered_json;

struct Totals {
  std::uint64_t parameters = 0;
  std::uint64_t tensor_bytes = 0;
  std::uint64_t file_bytes = 0;
};

Totals totals_of(const Contents& contents) {
  Totals totals;
  for (const TensorInfo& tensor : contents.manifest.tensors) {
    if (tensor.name.starts_with(kModelPrefix)) totals.parameters += checkpoint::element_count(tensor);
  }
  totals.tensor_bytes = checkpoint::byte_count(contents.manifest.tensors);
  for (const auto& shard : contents.manifest.shards) totals.file_bytes += shard.bytes;
  return totals;
}

OrderedJson tensor_json(const Reader& reader, const TensorInfo& tensor) {
  OrderedJson json = {{"name", tensor.name},
                      {"dtype", name_of(tensor.dtype)},
                      {"shape", tensor.shape},
                      {"bytes", checkpoint::byte_count(tensor)},
                      {"crc32c", checkpoint::checksum_text(reader.checksum(tensor.name))},
                      {"pieces", OrderedJson::array()}};
  if (const auto fingerprint = reader.fingerprint(tensor.name))
    json["crc64nvme"] = checkpoint::fingerprint_text(*fingerprint);
  for (const auto& piece : reader.pieces(tensor.name)) {
    json["pieces"].push_back({{"rank", piece.rank}, {"begin", piece.begin}, {"end", piece.end}});
  }
  return json;
}

/// The base whose tensors the checkpoint leaves out; null: none.
OrderedJson base_json(const std::optional<BaseNote>& base) {
  if (!base) return nullptr;
  OrderedJson json = {{"folder", base->folder},
                      {"save_id", base->save_id.empty() ? OrderedJson() : OrderedJson(base->save_id)},
                      {"tensors", OrderedJson::array()}};
  for (const BaseNote::Tensor& tensor : base->tensors) {
    json["tensors"].push_back({{"name", tensor.info.name},
                               {"dtype", name_of(tensor.info.dtype)},
                               {"shape", tensor.info.shape},
                               {"crc64nvme", checkpoint::fingerprint_text(tensor.fingerprint)}});
  }
  return json;
}

void print_json(const Contents& contents, const Reader& reader, const Totals& totals) {
  const auto& manifest = contents.manifest;
  OrderedJson json = {{"folder", contents.folder.string()},
                      {"step", manifest.step},
                      {"save_id", manifest.save_id},
                      {"ranks", manifest.shards.size()},
                      {"parameters", totals.parameters},
                      {"tensor_bytes", totals.tensor_bytes},
                      {"versions", manifest.versions},
                      {"shards", OrderedJson::array()},
                      {"attachments", OrderedJson::array()},
                      {"tensors", OrderedJson::array()},
                      {"base", base_json(checkpoint::base_note_of(reader))},
                      {"trainer_state", checkpoint::parse_json(manifest.trainer_state, "trainer state")}};
  for (const auto& shard : manifest.shards) {
    json["shards"].push_back({{"file", shard.file},
                              {"bytes", shard.bytes},
                              {"index_crc32c", checkpoint::checksum_text(shard.index_crc)}});
  }
  for (const auto& [name, file] : manifest.attachments) {
    json["attachments"].push_back(
        {{"name", name}, {"bytes", file.bytes}, {"crc32c", checkpoint::checksum_text(file.crc)}});
  }
  for (const TensorInfo& tensor : manifest.tensors) json["tensors"].push_back(tensor_json(reader, tensor));
  std::cout << json_text(json) << '\n';
}

void print_text(const Contents& contents, const Reader& reader, const Totals& totals) {
  const auto& manifest = contents.manifest;
  std::cout << "folder         " << contents.folder.string() << '\n'
            << "step           " << manifest.step << '\n'
            << "save id        " << manifest.save_id << '\n'
            << "written by     " << counted(manifest.shards.size(), "rank") << '\n'
            << "parameters     " << human_count(totals.parameters) << '\n'
            << "tensors        " << manifest.tensors.size() << ", " << human_bytes(totals.tensor_bytes)
            << '\n'
            << "shard files    " << human_bytes(totals.file_bytes) << '\n';
  for (const auto& [name, file] : manifest.attachments) {
    std::cout << "attachment     " << name << ", " << human_bytes(file.bytes) << '\n';
  }
  if (const auto base = checkpoint::base_note_of(reader))
    std::cout << "base           " << base->folder << ", " << base->tensors.size() << " tensors\n";
  std::cout << "trainer state  " << manifest.trainer_state << "\n\n";
  std::size_t width = 4;
  for (const TensorInfo& tensor : manifest.tensors) width = std::max(width, tensor.name.size());
  std::cout << std::left << std::setw(static_cast<int>(width)) << "NAME"
            << "  TYPE   " << std::setw(20) << "SHAPE"
            << "CRC32C    RANKS\n";
  for (const TensorInfo& tensor : manifest.tensors) {
    std::vector<std::string> ranks;
    for (const auto& piece : reader.pieces(tensor.name)) ranks.push_back(std::to_string(piece.rank));
    if (ranks.size() > 4) ranks = {ranks.front(), "..", ranks.back()};
    std::cout << std::setw(static_cast<int>(width)) << tensor.name << "  " << std::setw(6)
              << name_of(tensor.dtype) << ' ' << std::setw(19) << checkpoint::shape_text(tensor.shape) << ' '
              << checkpoint::checksum_text(reader.checksum(tensor.name)) << "  " << join(ranks, ",") << '\n';
  }
}

}  // namespace

void inspect(const InspectOptions& options) {
  const Contents contents = checkpoint::load_contents(checkpoint::newest_commit(options.checkpoint));
  const Reader reader(contents.folder);
  const Totals totals = totals_of(contents);
  if (options.json)
    print_json(contents, reader, totals);
  else
    print_text(contents, reader, totals);
}

}  // namespace echelon::tool
