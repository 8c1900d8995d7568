#include "checkpoints_tool/convert/hugging_face_folder.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/foreign_json.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoints_tool/convert/byte_size.h"
#include "families/convert.h"
#include "families/hugging_face_files.h"

namespace echelon::tool {
namespace {

const std::string kConfigFile = "config.json";
const std::string kGenerationConfig = "generation_config.json";
const std::string kTokenizer = "tokenizer.json";
const std::string kTokenizerConfig = "tokenizer_config.json";
const std::string kSpecialTokens = "special_tokens_map.json";

}  // namespace

void check_has_config(const checkpoint::Reader& reader) {
  if (reader.has_attachment(kConfigFile)) return;
  throw Error(Code::kCheckpoint,
              "the checkpoint has no attachment config.json, without which transformers cannot open the "
              "folder; use consolidate --to hdf5 for the bare tensors");
}

void add_companions(const checkpoint::Reader& reader, Conversion& conversion) {
  check_has_config(reader);
  conversion.texts[kConfigFile] = reader.attachment(kConfigFile);
  const auto read = [&](const std::string& name) {
    return reader.has_attachment(name) ? reader.attachment(name) : std::string();
  };
  // Special ids are those of config.json in every file, or transformers' generate would run on.
  const std::string& config = conversion.texts[kConfigFile];
  const auto add = [&](const std::string& name, std::string text) {
    if (!text.empty()) conversion.texts[name] = std::move(text);
  };
  add(kGenerationConfig, families::generation_config(config, read(kGenerationConfig)));
  const std::string tokenizer = read(kTokenizer);
  const std::string named = read(kTokenizerConfig);
  if (!named.empty()) {
    add(kTokenizerConfig, families::tokenizer_config_with_end(named, config, tokenizer));
  } else if (!tokenizer.empty()) {
    add(kTokenizerConfig, families::tokenizer_config(config, tokenizer));
  }
  // transformers 4 takes it before a tokenizer_config.json without added_tokens_decoder.
  const std::string tokens = read(kSpecialTokens);
  if (read_foreign_json(tokens).value.contains("eos_token"))
    add(kSpecialTokens, families::tokenizer_config_with_end(tokens, config, tokenizer));
  for (const std::string& name : reader.attachments()) {
    if (checkpoint::is_companion_file(name) && !conversion.texts.contains(name))
      conversion.attachments.push_back(name);
  }
}

void state_type(const std::vector<OutputTensor>& model, Conversion& conversion) {
  std::map<DType, std::uint64_t> elements;
  for (const OutputTensor& tensor : model) {
    if (families::is_floating(tensor.dtype)) elements[tensor.dtype] += element_count(tensor.source);
  }
  if (elements.empty()) return;
  const DType most =
      std::ranges::max_element(elements, {}, [](const auto& one) { return one.second; })->first;
  std::string& config = conversion.texts.at(kConfigFile);
  config = families::config_with_dtype(config, most);
}

bool has_tokenizer(const Conversion& conversion) {
  return !conversion.attachments.empty();
}

void add_safetensors(std::vector<OutputTensor> tensors, const std::string& stem,
                     const std::optional<std::string>& max_shard_size, Conversion& conversion) {
  SafetensorsPlan plan = plan_safetensors(
      std::move(tensors), stem, parse_byte_size(max_shard_size.value_or(kMaxShardSize), "--max-shard-size"));
  for (OutputFile& file : plan.files) conversion.plan.files.push_back(std::move(file));
  if (!plan.index_name.empty()) conversion.texts[plan.index_name] = plan.index_text;
}

}  // namespace echelon::tool
