#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/loader.h"
#include "data/tokens/token_file.h"
#include "data/tokens/token_file_writer.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"
#include "text/tokenizer.h"

namespace echelon::testing {

using test::TempDir;

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.good());
}

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// A file in the format of MNIST.
inline std::string idx_bytes(const std::vector<std::int64_t>& dimensions, const std::string& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dimensions.size())};
  for (const std::int64_t size : dimensions) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift & 255);
  }
  return bytes + values;
}

/// The text of the Error(`code`) that `body` throws; "" (and a failed test) otherwise.
inline std::string message_of(const std::function<void()>& body, Code code = Code::kData) {
  const std::string text = test::refusal(code, body);
  EXPECT_NE(text, "accepted");
  EXPECT_FALSE(test::mentions(text, "\n"));
  return text;
}

/// Documents of the given sizes whose ids count 0, 1, 2, ... over the whole file, modulo vocab_size.
inline TokenFileHeader write_counting_file(const std::filesystem::path& path, const std::vector<int>& sizes,
                                           std::uint64_t vocab_size, std::uint64_t digest = 0) {
  TokenFileWriter writer(path, {.vocab_size = vocab_size, .tokenizer_digest = digest, .flags = 0});
  std::uint64_t next = 0;
  for (const int size : sizes) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(size));
    for (auto& id : ids) id = static_cast<std::int32_t>(next++ % vocab_size);
    writer.add_document(ids);
  }
  return writer.finish();
}

/// The only stream of validation; null: there is none.
inline std::unique_ptr<Loader> make_validation_loader(const DataOptions& options, const ModelInput& input,
                                                      std::uint64_t seed) {
  std::vector<ValidationSource> sources = make_validation_sources(options, input, seed);
  return sources.empty() ? nullptr : std::move(sources.front().loader);
}

/// Reads every id and every document's border, so that each of their checks is made.
inline void read_whole(const TokenFile& file) {
  std::vector<std::int64_t> ids(file.token_count());
  file.read(0, ids);
  file.for_each_document([](const TokenFile::Range&) {});
}

/// The texts of a token file, with BOS and EOS demanded as it says and removed, by the tokenizer beside it.
inline std::vector<std::string> documents_of(const std::filesystem::path& path,
                                             std::string_view tokenizer_name = "tokenizer.model") {
  const auto tokenizer = Tokenizer::load(path.parent_path() / tokenizer_name);
  const TokenFile file(path);
  read_whole(file);
  EXPECT_EQ(file.header().tokenizer_digest, tokenizer->digest());
  const bool with_bos = (file.header().flags & kDocumentsStartWithBos) != 0;
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < file.document_count(); ++i) {
    const auto range = file.document(i);
    std::vector<std::int64_t> wide(range.end - range.begin);
    file.read(range.begin, wide);
    const std::vector<std::int32_t> ids(wide.begin(), wide.end());
    if (with_bos) {
      EXPECT_EQ(ids.front(), tokenizer->bos_id());
    }
    EXPECT_EQ(ids.back(), tokenizer->eos_id());
    texts.push_back(tokenizer->decode(ids));
  }
  return texts;
}

}  // namespace echelon::testing
