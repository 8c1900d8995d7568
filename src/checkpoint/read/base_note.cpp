#include "checkpoint/read/base_note.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/json.h"

namespace echelon::checkpoint {

const BaseNote::Tensor* BaseNote::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const Tensor& tensor, std::string_view key) { return tensor.info.name < key; });
  return found != tensors.end() && found->info.name == name ? &*found : nullptr;
}

std::string BaseNote::text() const {
  Json root = {{"folder", folder}, {"tensors", Json::array()}};
  if (!save_id.empty()) root["save_id"] = save_id;
  for (const Tensor& tensor : tensors) {
    root["tensors"].push_back(tensor_json(tensor.info));
    root["tensors"].back()["crc64nvme"] = fingerprint_text(tensor.fingerprint);
  }
  return canonical_text(root);
}

BaseNote parse_base_note(std::string_view source, const std::string& what) {
  const Json root = parse_json(source, what);
  BaseNote note{.folder = text(root, "folder", what)};
  if (!note.folder.starts_with('/') || note.folder.find('\0') != std::string::npos)
    throw Error(Code::kCheckpoint, what, ": 'folder' must be an absolute path");
  if (root.contains("save_id")) note.save_id = save_id_of(root, "save_id", what);
  std::vector<TensorInfo> all;
  for (const Json& json : list_of(root, "tensors", kMaxTensorsListed, what)) {
    all.push_back(parse_tensor(json, what));
    if (all.back().dtype != DType::kF32 && all.back().dtype != DType::kBF16)
      throw Error(Code::kCheckpoint, what, ": tensor '", all.back().name, "' must be fp32 or bf16");
    note.tensors.push_back({all.back(), fingerprint(json, "crc64nvme", what)});
  }
  in_context(what, [&] { check_tensors(all); });
  std::ranges::sort(note.tensors, [](const auto& a, const auto& b) { return a.info.name < b.info.name; });
  return note;
}

std::optional<BaseNote> base_note_of(const Reader& reader) {
  const std::string file(kBaseFile);
  if (!reader.has_attachment(file)) return std::nullopt;
  BaseNote note = parse_base_note(reader.attachment(file), str("'", (reader.folder() / file).string(), "'"));
  for (const BaseNote::Tensor& tensor : note.tensors) {
    if (reader.find(tensor.info.name) != nullptr)
      throw Error(Code::kCheckpoint, "'", (reader.folder() / file).string(), "': the checkpoint holds '",
                  tensor.info.name, "' itself");
  }
  return note;
}

}  // namespace echelon::checkpoint
