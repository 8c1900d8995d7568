#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/tokens/token_file_writer.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"

namespace echelon::testing {

/// test::TempDir with `dir / "name"`.
class TempDir : public test::TempDir {
 public:
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path() / name; }
};

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

}  // namespace echelon::testing
