#include "text/bpe/tokenizer_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
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

/// An object of tokens and their ids.
Vocabulary read_ids(const JsonField& field) {
  if (!field.json().is_object() || field.json().empty() || field.json().size() > kMostTokens)
    field.refuse(str("an object of 1 to ", kMostTokens, " tokens"));
  Vocabulary vocab;
  vocab.reserve(field.json().size());
  for (const auto& [token, id] : field.json().items()) {
    const JsonField entry(id, str(field.path(), "['", printable(token), "']"));
    if (token.size() > kLongestToken) entry.refuse(str("a token of at most ", kLongestToken, " bytes"));
    vocab.emplace(token, entry.integer(kLargestId));
  }
  return vocab;
}

void read_byte_pairs(const JsonField& field, TokenizerJson& out) {
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
  out.vocab = read_ids(field.at("vocab"));
  if (!model.unk_token.empty() && !out.vocab.contains(model.unk_token))
    field.at("unk_token").refuse("a token of model.vocab");
  const auto merges = field.at("merges").items(kMostTokens);
  model.merges.reserve(merges.size());
  for (const JsonField& merge : merges) model.merges.push_back(read_merge(merge));
  out.model = std::move(model);
}

/// The number that serde_json, with which `tokenizers` reads its files, makes of the digits of `number`. It
/// rounds twice where they are more than 15, and pieces whose scores are nearly equal are chosen by that.
double as_serde_reads(double number) {
  constexpr int kLargestPower = 308;
  std::array<char, 32> room{};
  const auto written =
      std::to_chars(room.data(), room.data() + room.size(), std::abs(number), std::chars_format::scientific);
  const std::string text(room.data(), written.ptr);  // "1.25e-07"
  const std::size_t end = text.find('e');
  std::string digits = text.substr(0, end);
  std::erase(digits, '.');
  int exponent = std::atoi(text.c_str() + end + 1) + 1 - static_cast<int>(digits.size());
  auto value = static_cast<double>(std::stoull(digits));
  if (exponent < -kLargestPower) {
    value /= 1e308;
    exponent += kLargestPower;
  }
  const double scale = std::strtod(str("1e", std::abs(exponent)).c_str(), nullptr);
  value = exponent < 0 ? value / scale : value * scale;
  return number < 0 ? -value : value;
}

/// A list of tokens with their scores; the place is the id.
void read_unigram(const JsonField& field, TokenizerJson& out) {
  UnigramModel model{.byte_fallback = field.boolean("byte_fallback", false)};
  const auto vocab = field.at("vocab").items(kMostTokens);
  if (vocab.empty()) field.at("vocab").refuse(str("1 to ", kMostTokens, " tokens"));
  out.vocab.reserve(vocab.size());
  for (const JsonField& entry : vocab) {
    const auto parts = entry.items(2);
    if (parts.size() != 2 || !parts[1].json().is_number()) entry.refuse("a token and its score");
    if (!out.vocab.emplace(token_text(parts[0]), static_cast<std::int32_t>(model.scores.size())).second)
      parts[0].refuse("a token that is not listed twice");
    model.scores.push_back(as_serde_reads(parts[1].json().get<double>()));
  }
  model.unk_id = field.at("unk_id").integer(static_cast<std::int32_t>(vocab.size()) - 1);
  out.model = std::move(model);
}

void read_model(const JsonField& field, TokenizerJson& out) {
  const auto type = field.find("type");  // older files have none
  if (!type || type->text() == "BPE") return read_byte_pairs(field, out);
  if (type->text() == "Unigram") return read_unigram(field, out);
  type->refuse("BPE or Unigram");
}

/// `tokenizers` gives an added token its id in the vocabulary, else the next free id, and ignores the one
/// in the file. If they differ, the file was edited by hand and its intent is unknown: refused.
std::vector<AddedToken> read_added_tokens(const JsonField& root, const Vocabulary& vocab) {
  std::vector<AddedToken> all;
  const auto list = root.find("added_tokens");
  if (!list) return all;
  std::set<std::string> seen;
  auto next = static_cast<std::int32_t>(vocab.size());
  for (const JsonField& field : list->items(kMostAddedTokens)) {
    AddedToken token{.content = token_text(field.at("content")),
                     .id = field.at("id").integer(kLargestId),
                     .single_word = field.boolean("single_word"),
                     .lstrip = field.boolean("lstrip"),
                     .rstrip = field.boolean("rstrip"),
                     .normalized = field.boolean("normalized"),
                     .special = field.boolean("special")};
    if (!seen.insert(token.content).second) field.at("content").refuse("a token that is not listed twice");
    const auto known = vocab.find(token.content);
    const std::int32_t id = known != vocab.end() ? known->second : next;
    if (token.id != id) {
      field.at("id").refuse(str(id, ", which ",
                                known != vocab.end() ? "model.vocab says" : "is the next free one", " for '",
                                printable(token.content), "'"));
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
    throw Error(Code::kData, root.path(), " gives the id ", id, " to '", printable(first), "' and to '",
                printable(second), "', expected an id of its own for each token");
  };
  for (const auto& [token, id] : json.vocab) add(token, id);
  for (const AddedToken& token : json.added_tokens) add(token.content, token.id);
}

/// What stands around a text; -1: nothing.
struct Frame {
  std::int32_t before = -1;
  std::int32_t after = -1;
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
      std::int32_t& place = behind ? frame.after : frame.before;
      if (place >= 0) single.refuse("at most one special token before the text and one after it");
      place = id.integer(kLargestId);
    }
  }
  if (!behind) single.refuse("a template with the text once");
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
      frame = Frame{id_of("cls"), id_of("sep")};
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
  // A template without a token in front says that there is none.
  out.bos_id = frame ? frame->before : find_special(out.added_tokens, kBegins);
  out.eos_id = frame && frame->after >= 0 ? frame->after : find_special(out.added_tokens, kEnds);
}

/// Whether the text behind the step can begin with what stood later in the text before it.
bool loses_begin(const NormalizerStep& step, std::string_view sign) {
  if (step.kind == Normalization::kNmt || step.kind == Normalization::kStripAccents || step.left) return true;
  if (step.kind != Normalization::kReplace) return false;
  // `tokenizers` takes the new text for one that begins at the second character, if more than one is
  // replaced.
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; };
  const bool one = !step.regex && std::ranges::count_if(step.pattern, begins) == 1;
  const bool begins_word = step.content.starts_with(' ') || step.content.starts_with(sign);
  return step.content.empty() || !(one || begins_word);
}

/// A Metaspace step of scheme "first" asks where in the text, as it was given, its part begins.
void refuse_lost_begins(const JsonField& root, const TokenizerJson& json) {
  if (!json.steps.metaspace || json.steps.metaspace->prepend != PrependScheme::kFirst) return;
  for (const NormalizerStep& step : json.steps.normalizers) {
    if (loses_begin(step, json.steps.metaspace->sign))
      root.at("normalizer")
          .refuse(
              "none that drops characters, or replaces several at once, as the prepend_scheme of Metaspace "
              "is \"first\"");
  }
}

}  // namespace

std::array<std::int32_t, 256> ids_of_bytes(const Vocabulary& vocab) {
  std::array<std::int32_t, 256> ids{};
  for (unsigned byte = 0; byte < ids.size(); ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    const auto found = vocab.find(name.data());
    ids.at(byte) = found == vocab.end() ? -1 : found->second;
  }
  return ids;
}

TokenizerJson TokenizerJson::parse(std::string_view bytes, std::string_view name) {
  const nlohmann::json json = parse_foreign_json(bytes, str("tokenizer '", name, "'"), Code::kData);
  const JsonField root(json, str("tokenizer '", name, "': field tokenizer.json"));
  TokenizerJson out;
  read_model(root.at("model"), out);
  out.steps.normalizers = read_normalizers(root);
  read_pre_tokenizers(root, out.steps);
  if (out.steps.byte_level && std::holds_alternative<UnigramModel>(out.model))
    root.at("pre_tokenizer").refuse("no ByteLevel step with a Unigram model");
  refuse_lost_begins(root, out);
  out.added_tokens = read_added_tokens(root, out.vocab);
  require_unique_ids(root, out);
  find_document_ends(root, out);
  read_decoders(root, out.steps);
  return out;
}

}  // namespace echelon::data
