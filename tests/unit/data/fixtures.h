#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/token_file_writer.h"

namespace echelon::testing {

/// A folder of its own for one test, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "echelon-data-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
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
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
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
