#include "text/bpe/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/foreign_json.h"
#include "text/bpe/tokenizer_steps.h"
#include "text/json_field.h"

namespace echelon::data {
namespace {

constexpr std::int32_t kLargestId = (1 << 24) - 1;
constexpr std::size_t kMostTokens = 4000000;
constexpr std::size_t kMostAddedTokens = 100000;

std::pair<std::string, std::string> read_merge(const JsonField& merge) {
  if (merge.json().is_array()) {
    const auto parts = merge.items(2);
    if (parts.size() != 2) merge.refuse("two tokens");
    return {token_text(parts[0]), token_text(parts[1])};
  }
  const std::string& text = token_text(merge);
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos || space == 0 ||
      space + 1 == text.size()) {
    merge.refuse("two tokens and a space between them");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

BytePairModel read_model(const JsonField& field) {
  const auto type = field.find("type");  // older files have none
  if (type && type->text() != "BPE") {
    type->refuse("BPE; for a Unigram model name the sentencepiece model (spiece.model) that comes with it");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const auto affix = field.find(name); affix && !affix->text().empty()) affix->refuse("none");
  }
  if (const auto dropout = field.find("dropout")) {
    if (!dropout->json().is_number() || dropout->json().get<double>() != 0)
      dropout->refuse("none: dropout would make token ids random");
  }
  BytePairModel model{.unk_token = field.text_or_empty("unk_token"),
                      .fuse_unk = field.boolean("fuse_unk", false),
                      .byte_fallback = field.boolean("byte_fallback", false),
                      .ignore_merges = field.boolean("ignore_merges", false)};
  const JsonField vocab = field.at("vocab");
  if (!vocab.json().is_object() || vocab.json().empty() || vocab.json().size() > kMostTokens)
    vocab.refuse(str("an object of 1 to ", kMostTokens, " tokens"));
  model.vocab.reserve(vocab.json().size());
  for (const auto& [token, id] : vocab.json().items()) {
    const JsonField entry(id, str(vocab.path(), "['", printable(token), "']"));
    if (token.size() > kLongestToken) entry.refuse(str("a token of at most ", kLongestToken, " bytes"));
    model.vocab.emplace(token, entry.integer(kLargestId));
  }
  if (!model.unk_token.empty() && !model.vocab.contains(model.unk_token))
    field.at("unk_token").refuse("a token of model.vocab");
  const auto merges = field.at("merges").items(kMostTokens);
  model.merges.reserve(merges.size());
  for (const JsonField& merge : merges) model.merges.push_back(read_merge(merge));
  return model;
}

/// `tokenizers` gives an added token its id in the vocabulary, else the next free id, and ignores the one
/// in the file. If they differ, the file was edited by hand and its intent is unknown: refused.
std::vector<AddedToken> read_added_tokens(const JsonField& root, const BytePairModel& model) {
  std::vector<AddedToken> all;
  const auto list = root.find("added_tokens");
  if (!list) return all;
  std::set<std::string> seen;
  auto next = static_cast<std::int32_t>(model.vocab.size());
  for (const JsonField& field : list->items(kMostAddedTokens)) {
    AddedToken token{.content = token_text(field.at("content")),
                     .id = field.at("id").integer(kLargestId),
                     .single_word = field.boolean("single_word"),
                     .lstrip = field.boolean("lstrip"),
                     .rstrip = field.boolean("rstrip"),
                     .normalized = field.boolean("normalized"),
                     .special = field.boolean("special")};
    if (!seen.insert(token.content).second) field.at("content").refuse("a token that is not listed twice");
    const auto known = model.vocab.find(token.content);
    const std::int32_t id = known != model.vocab.end() ? known->second : next;
    if (token.id != id) {
      field.at("id").refuse(str(id, ", which ",
                                known != model.vocab.end() ? "model.vocab says" : "is the next free one",
                                " for '", printable(token.content), "'"));
    }
    next = std::max(next, id + 1);
    all.push_back(std::move(token));
  }
  return all;
}

/// Two tokens with one id could not be told apart when a text is decoded.
void require_unique_ids(const JsonField& root, const TokenizerJson& json) {
  std::unordered_map<std::int32_t, std::string_view> names;
  const auto add = [&](std::string_view name, std::int32_t id) {
    const std::string_view other = names.emplace(id, name).first->second;
    if (other == name) return;
    const auto [first, second] = std::minmax(other, name);
    throw Error(Code::kData, str(root.path(), " gives the id ", id, " to '", printable(first), "' and to '",
                                 printable(second), "', expected an id of its own for each token"));
  };
  for (const auto& [token, id] : json.model.vocab) add(token, id);
  for (const AddedToken& token : json.added_tokens) add(token.content, token.id);
}

struct Frame {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

Frame read_template(const JsonField& step) {
  Frame frame;
  bool behind = false;
  const JsonField single = step.at("single");
  for (const JsonField& piece : single.items(kMostSteps)) {
    if (piece.find("Sequence")) {
      if (behind) single.refuse("a template with the text once");
      behind = true;
      continue;
    }
    const std::string name = piece.at("SpecialToken").at("id").text();
    for (const JsonField& id : step.at("special_tokens").at(name.c_str()).at("ids").items(kMostSteps)) {
      (behind ? frame.after : frame.before).push_back(id.integer(kLargestId));
    }
  }
  if (!behind) single.refuse("a template with the text once");
  if (frame.before.size() > 1 || frame.after.size() > 1)
    single.refuse("at most one special token before the text and one after it");
  return frame;
}

std::optional<Frame> read_frame(const JsonField& root) {
  std::optional<Frame> frame;
  for (const JsonField& step : steps_of(root.find("post_processor"), "processors")) {
    const JsonField type = step.at("type");
    if (type.text() == "ByteLevel") continue;  // it corrects offsets
    if (frame) type.refuse("one step that adds special tokens");
    if (type.text() == "TemplateProcessing") {
      frame = read_template(step);
    } else if (type.text() == "RobertaProcessing" || type.text() == "BertProcessing") {
      const auto id_of = [&](const char* name) {
        const auto pair = step.at(name).items(2);
        if (pair.size() != 2) step.at(name).refuse("a token and its id");
        return pair[1].integer(kLargestId);
      };
      frame = Frame{{id_of("cls")}, {id_of("sep")}};
    } else {
      type.refuse("TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel or a Sequence of them");
    }
  }
  return frame;
}

std::int32_t find_special(const std::vector<AddedToken>& tokens, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    for (const AddedToken& token : tokens) {
      if (token.special && token.content == name) return token.id;
    }
  }
  return -1;
}

void find_document_ends(const JsonField& root, TokenizerJson& out) {
  constexpr std::array<std::string_view, 8> kBegins{"[BOT]",
                                                    "[BOS]",
                                                    "<s>",
                                                    "<bos>",
                                                    "<|begin_of_text|>",
                                                    "<|startoftext|>",
                                                    "<|bos|>",
                                                    "<\xEF\xBD\x9C"
                                                    "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};
  constexpr std::array<std::string_view, 8> kEnds{"[EOT]",
                                                  "[EOS]",
                                                  "</s>",
                                                  "<eos>",
                                                  "<|end_of_text|>",
                                                  "<|endoftext|>",
                                                  "<|eos|>",
                                                  "<\xEF\xBD\x9C"
                                                  "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};
  const auto frame = read_frame(root);
  const bool silent = !frame || (frame->before.empty() && frame->after.empty());
  if (silent) {
    out.bos_id = find_special(out.added_tokens, kBegins);
  } else if (!frame->before.empty()) {
    out.bos_id = frame->before[0];
  }
  out.eos_id = silent || frame->after.empty() ? find_special(out.added_tokens, kEnds) : frame->after[0];
}

}  // namespace

TokenizerJson TokenizerJson::parse(std::string_view bytes, std::string_view name) {
  const nlohmann::json json = parse_foreign_json(bytes, str("tokenizer '", name, "'"), Code::kData);
  const JsonField root(json, str("tokenizer '", name, "': field tokenizer.json"));
  TokenizerJson out;
  out.model = read_model(root.at("model"));
  out.normalizers = read_normalizers(root);
  read_pre_tokenizers(root, out);
  out.added_tokens = read_added_tokens(root, out.model);
  require_unique_ids(root, out);
  find_document_ends(root, out);
  read_decoders(root, out);
  return out;
}

}  // namespace echelon::data
