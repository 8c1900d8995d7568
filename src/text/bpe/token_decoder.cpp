#include "text/bpe/token_decoder.h"

#include <charconv>
#include <optional>

#include "base/str.h"
#include "text/utf8.h"

namespace echelon::data {
namespace {

std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned byte = 0;
  const char* end = token.data() + 5;
  const auto read = std::from_chars(token.data() + 3, end, byte, 16);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return static_cast<char>(byte);
}

/// Bytes in a row that are no text become as many U+FFFD.
void join_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> joined;
  std::string bytes;
  const auto end_bytes = [&] {
    if (find_invalid_utf8(bytes) == std::string_view::npos) {
      joined.push_back(bytes);
    } else {
      for (std::size_t i = 0; i < bytes.size(); ++i) joined.emplace_back("\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
      continue;
    }
    if (!bytes.empty()) end_bytes();
    joined.push_back(std::move(token));
  }
  if (!bytes.empty()) end_bytes();
  tokens = std::move(joined);
}

std::string stripped(std::string_view token, const DecoderStep& step) {
  for (int i = 0; i < step.start && token.starts_with(step.pattern); ++i)
    token.remove_prefix(step.pattern.size());
  for (int i = 0; i < step.stop && token.ends_with(step.pattern); ++i)
    token.remove_suffix(step.pattern.size());
  return std::string(token);
}

void apply(const DecoderStep& step, std::vector<std::string>& tokens) {
  switch (step.kind) {
    case Decoding::kReplace:
      for (std::string& token : tokens) token = replace_all(token, step.pattern, step.content);
      return;
    case Decoding::kByteFallback: return join_bytes(tokens);
    case Decoding::kFuse: tokens = {join(tokens, "")}; return;
    case Decoding::kStrip:
      for (std::string& token : tokens) token = stripped(token, step);
      return;
    case Decoding::kMetaspace:
      for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = replace_all(tokens[i], step.pattern, i == 0 && step.drops_first ? "" : " ");
  }
}

}  // namespace

std::string decode_tokens(std::vector<std::string> tokens, const std::vector<DecoderStep>& steps) {
  for (const DecoderStep& step : steps) apply(step, tokens);
  return join(tokens, "");
}

std::string bytes_of_token(std::string token, const std::vector<DecoderStep>& steps) {
  for (const DecoderStep& step : steps) {
    if (step.kind == Decoding::kByteFallback) {
      if (const auto byte = byte_of(token)) return std::string(1, *byte);
    } else if (step.kind == Decoding::kReplace) {
      token = replace_all(token, step.pattern, step.content);
    } else if (step.kind == Decoding::kMetaspace) {
      token = replace_all(token, step.pattern, " ");
    }
  }
  return token;
}

}  // namespace echelon::data
