// Any bytes as a token file: opening and reading must end in success or in Error, and never read
// outside of the file. An odd first byte makes the checksums of what follows fit, so that the checks behind
// them are reached.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/checksum/crc32c.h"
#include "data/tokens/token_file.h"
#include "data/tokens/token_file_writer.h"
#include "fuzz/refused.h"

namespace {

using echelon::crc32c;
using echelon::kTokenBlockBytes;
using echelon::kTokenHeaderBytes;

template <class T>
T field(const std::vector<std::byte>& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Recomputes every checksum that the header's own offsets lead to.
void seal(std::vector<std::byte>& bytes) {
  if (bytes.size() < kTokenHeaderBytes) return;
  const std::span<const std::byte> whole(bytes);
  const auto table = field<std::uint64_t>(bytes, 80);
  if (table >= kTokenHeaderBytes && table < bytes.size()) {
    std::uint64_t entry = table;
    for (std::uint64_t at = kTokenHeaderBytes; at < table && entry + 4 <= bytes.size();
         at += kTokenBlockBytes) {
      const std::uint32_t crc = crc32c(whole.subspan(at, std::min(kTokenBlockBytes, table - at)));
      std::memcpy(bytes.data() + entry, &crc, 4);
      entry += 4;
    }
    const std::uint32_t crc = crc32c(whole.subspan(table));
    std::memcpy(bytes.data() + 100, &crc, 4);
  }
  const std::uint32_t crc = crc32c(whole.first(124));
  std::memcpy(bytes.data() + 124, &crc, 4);
}

void use(const std::string& path) {
  const echelon::TokenFile file(path);
  std::vector<std::int64_t> ids(std::min<std::uint64_t>(file.token_count(), 100));
  file.read(file.token_count() - ids.size(), ids);
  std::vector<bool> trained;
  if (file.header().holds_chats()) file.read(file.token_count() - ids.size(), ids, &trained);
  for (const std::int64_t id : ids) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= file.header().vocab_size) __builtin_trap();
  }
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(file.document_count(), 10); ++i) {
    const auto range = file.document(i);
    if (range.begin >= range.end || range.end > file.token_count()) __builtin_trap();
  }
  ids.resize(file.token_count());
  file.read(0, ids);
  file.for_each_document([](const echelon::TokenFile::Range&) {});
}

/// A file of 3 documents; `tokens` in each.
std::string seed(std::uint64_t vocab_size, std::size_t tokens, std::uint32_t flags = 0) {
  std::string pattern = (std::filesystem::temp_directory_path() / "echelon-fuzz-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  const std::filesystem::path folder = pattern;
  echelon::TokenFileWriter writer(folder / "seed.tok", {.vocab_size = vocab_size, .flags = flags});
  for (std::int32_t document = 0; document < 3; ++document) {
    writer.add_chat(std::vector<std::int32_t>(tokens, document), {false, flags != 0});
  }
  writer.finish();
  std::ifstream in(folder / "seed.tok", std::ios::binary);
  std::string bytes = "\1" + std::string(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove_all(folder);
  return bytes;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {seed(300, 5), seed(70000, 5), seed(300, 9000), seed(300, 5, echelon::kDocumentsAreChats)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin + 1, begin + size);
  if ((data[0] & 1) != 0) seal(bytes);
  const int fd = ::memfd_create("token_file", 0);
  if (fd < 0) return 0;
  const bool written = ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  used_or_refused(echelon::Code::kData, [&] {
    if (written) use("/proc/self/fd/" + std::to_string(fd));
  });
  ::close(fd);
  return 0;
}
