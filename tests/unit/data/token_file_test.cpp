#include "data/tokens/token_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/checksum/crc32c.h"
#include "base/str.h"
#include "data/tokens/document_index.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using namespace testing;  // NOLINT

/// A file of 40,000 tokens (5 blocks of 16 KiB) and the means to damage it.
class HostileTokenFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_ / "train.tok";
    header_ = write_counting_file(path_, {10000, 1, 29999}, 5000);
    bytes_ = read_bytes(path_);
  }

  template <class T>
  void set(std::size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
  }

  /// Makes the header checksum fit again, as a hostile writer would.
  void reseal() { set(124, crc32c(std::as_bytes(std::span(bytes_)).first(124))); }

  /// Also makes the checksum of the block at `offset` and that of the table fit.
  void reseal_block(std::size_t offset) {
    const std::size_t block = (offset - kTokenHeaderBytes) / kTokenBlockBytes;
    const std::size_t begin = kTokenHeaderBytes + block * kTokenBlockBytes;
    const std::size_t end = std::min<std::size_t>(begin + kTokenBlockBytes, header_.checksums_offset());
    const auto bytes = std::as_bytes(std::span(bytes_));
    set(header_.checksums_offset() + 4 * block, crc32c(bytes.subspan(begin, end - begin)));
    set(100, crc32c(bytes.subspan(header_.checksums_offset())));
    reseal();
  }

  std::string refusal() {
    write_bytes(path_, bytes_);
    return message_of([&] { read_whole(TokenFile(path_)); });
  }
  /// Of what a run finds before it reads a token.
  std::string refusal_at_open() {
    write_bytes(path_, bytes_);
    return message_of([&] { TokenFile file(path_); });
  }
  std::string named(std::string_view rest) const { return str("token file '", path_.string(), "' ", rest); }

  TempDir dir_;
  std::filesystem::path path_;
  TokenFileHeader header_;
  std::string bytes_;
};

TEST(TokenFile, GivesBackWhatWasWritten) {
  for (const std::uint64_t vocab : {300U, 65536U, 65537U, 200000U}) {
    const TempDir dir;
    const auto path = dir / "a.tok";
    write_counting_file(path, {1, 70000, 5, 30001}, vocab, 77);
    const TokenFile file(path);
    read_whole(file);
    EXPECT_EQ(file.token_count(), 100007U);
    EXPECT_EQ(file.header().token_width, vocab <= 65536 ? 2U : 4U);
    EXPECT_EQ(file.header().vocab_size, vocab);
    EXPECT_EQ(file.header().tokenizer_digest, 77U);
    EXPECT_EQ(file.header().max_token, std::min<std::uint64_t>(vocab, 100007) - 1);
    std::vector<std::int64_t> ids(100007);
    file.read(0, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], static_cast<std::int64_t>(i % vocab));
    // Every alignment to a block border.
    for (std::uint64_t first = 8100; first < 8300; ++first) {
      std::array<std::int64_t, 3> three{};
      file.read(first, three);
      ASSERT_EQ(three[2], static_cast<std::int64_t>((first + 2) % vocab));
    }
    EXPECT_EQ(file.document(0).end, 1U);
    EXPECT_EQ(file.document(1).begin, 1U);
    EXPECT_EQ(file.document(3).begin, 70006U);
    EXPECT_EQ(file.document(3).end, 100007U);
  }
}

TEST(TokenFile, LiesOnDiskAsDocumented) {
  const TempDir dir;
  write_counting_file(dir / "a.tok", {2, 1}, 300, 0x1122334455667788U);
  const std::string bytes = read_bytes(dir / "a.tok");
  ASSERT_EQ(bytes.size(), 128U + 8 + 16 + 4);  // 3 ids of 2 bytes, padded; 2 ends; 1 block checksum
  EXPECT_EQ(bytes.substr(0, 8),
            "\x93"
            "ECHTO\r\n");
  EXPECT_EQ(bytes.substr(8, 16), std::string("\1\0\0\0\x80\0\0\0\2\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(56, 8), "\x88\x77\x66\x55\x44\x33\x22\x11");
  EXPECT_EQ(bytes.substr(128, 8), std::string("\0\0\1\0\2\0\0\0", 8));
  EXPECT_EQ(bytes.substr(136, 16), std::string("\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 16));
}

TEST(TokenFile, TellsWhichTokensOfAChatAreTrained) {
  for (const std::uint64_t vocab : {300U, 32768U, 32769U, 200000U}) {
    const TempDir dir;
    const auto last = static_cast<std::int32_t>(vocab - 1);
    TokenFileWriter writer(dir / "a.tok", {.vocab_size = vocab, .flags = kDocumentsAreChats});
    writer.add_chat(std::vector{last, 1, last}, {false, true, true});
    writer.add_chat(std::vector{7}, {});
    const TokenFileHeader header = writer.finish();
    EXPECT_EQ(header.token_width, vocab <= 32768 ? 2U : 4U);
    EXPECT_EQ(header.max_token, vocab - 1);
    const TokenFile file(dir / "a.tok");
    read_whole(file);
    std::vector<std::int64_t> ids(4);
    std::vector<bool> trained;
    file.read(0, ids, &trained);
    EXPECT_EQ(ids, (std::vector<std::int64_t>{last, 1, last, 7}));
    EXPECT_EQ(trained, (std::vector<bool>{false, true, true, false}));
    std::vector<std::int64_t> plain(4);
    file.read(0, plain);
    EXPECT_EQ(plain, ids);
  }
}

TEST(TokenFile, SaysWhatLiesOutsideOfIt) {
  const TempDir dir;
  write_counting_file(dir / "a.tok", {4}, 300);
  const TokenFile file(dir / "a.tok");
  std::array<std::int64_t, 2> two{};
  const std::string name = str("token file '", (dir / "a.tok").string(), "'");
  EXPECT_EQ(message_of([&] { file.read(3, two); }), name + " has 4 tokens; 2 were requested from token 3");
  EXPECT_EQ(message_of([&] { file.read(~std::uint64_t{0}, two); }),
            name + " has 4 tokens; 2 were requested from token 18446744073709551615");
  EXPECT_EQ(message_of([&] { (void)file.document(1); }), name + " has 1 documents; number 1 was requested");
}

TEST_F(HostileTokenFile, RefusesFolderAndPipe) {
  EXPECT_EQ(message_of([&] { TokenFile file(dir_.path()); }),
            str("token file '", dir_.path().string(), "' is a folder: name the .tok file in it"));
  const auto pipe = dir_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { TokenFile file(pipe); }),
            str("token file '", pipe.string(), "' is not a regular file"));
}

TEST_F(HostileTokenFile, RefusesEmptyFile) {
  bytes_.clear();
  EXPECT_EQ(refusal_at_open(), named("is empty: prepare the data again"));
}

TEST_F(HostileTokenFile, RefusesForeignMagic) {
  const std::string expected =
      named("is not a token file (it starts with other bytes): name a file made by `echelon prepare`");
  bytes_[1] = 'X';
  EXPECT_EQ(refusal_at_open(), expected);
  bytes_ = "hi";
  EXPECT_EQ(refusal_at_open(), expected);
}

TEST_F(HostileTokenFile, RefusesNewerVersion) {
  set(8, std::uint32_t{5});
  EXPECT_EQ(refusal_at_open(),
            named("has format version 5, this build reads versions 1 to 4: use the echelon that made it or "
                  "prepare the data again"));
}

TEST_F(HostileTokenFile, RefusesDamagedHeaderWhereverItIsHit) {
  const std::string whole = bytes_;
  for (std::size_t at = 12; at < kTokenHeaderBytes; ++at) {
    bytes_ = whole;
    bytes_[at] = static_cast<char>(bytes_[at] ^ 0x10);
    ASSERT_EQ(refusal_at_open(),
              named("is damaged: its header does not match its checksum; copy or prepare it again"))
        << at;
  }
}

TEST_F(HostileTokenFile, RefusesEveryTruncation) {
  const std::string whole = bytes_;
  for (const std::size_t size : {8UL, 127UL, 128UL, 129UL, 40000UL, whole.size() - 1}) {
    bytes_ = whole.substr(0, size);
    const std::string rest = size < kTokenHeaderBytes
                                 ? str(" bytes do not hold its header; copy or prepare it again")
                                 : str(" bytes instead of ", whole.size(), "; copy or prepare it again");
    EXPECT_EQ(refusal_at_open(), named(str("is cut short: ", size, rest)));
  }
}

TEST_F(HostileTokenFile, RefusesExtendedFile) {
  bytes_ += "x";
  EXPECT_EQ(refusal_at_open(), named(str("has extra bytes at its end: ", bytes_.size(), " bytes instead of ",
                                         bytes_.size() - 1, "; copy or prepare it again")));
}

TEST_F(HostileTokenFile, RefusesDamagedBlockByNumber) {
  const std::string whole = bytes_;
  for (const std::size_t block : {0UL, 2UL, 4UL}) {
    bytes_ = whole;
    const std::size_t begin = kTokenHeaderBytes + block * kTokenBlockBytes;
    bytes_[begin + 9] = static_cast<char>(bytes_[begin + 9] ^ 1);
    const std::size_t end = std::min<std::size_t>(begin + kTokenBlockBytes, header_.checksums_offset());
    EXPECT_EQ(refusal(), named(str("is damaged: block ", block, " (bytes ", begin, " to ", end,
                                   ") does not match its checksum; copy or prepare it again")));
  }
}

TEST_F(HostileTokenFile, RefusesDamageAnywhereBehindTheHeader) {
  const std::string whole = bytes_;
  for (std::size_t at = kTokenHeaderBytes; at < whole.size(); at += 997) {
    bytes_ = whole;
    bytes_[at] = static_cast<char>(bytes_[at] ^ 0x80);
    ASSERT_TRUE(test::mentions(refusal(), "is damaged: ")) << at;
  }
}

TEST_F(HostileTokenFile, RefusesDamagedChecksumTable) {
  bytes_.back() = static_cast<char>(bytes_.back() ^ 1);
  EXPECT_EQ(refusal_at_open(),
            named("is damaged: its block checksums do not match their checksum; copy or prepare it again"));
}

TEST_F(HostileTokenFile, RefusesSealedHeadersThatNoWriterMakes) {
  struct Case {
    std::size_t offset;
    std::uint64_t value;
    bool wide;
    std::string_view field;
  };
  const std::string whole = bytes_;
  for (const Case& c : {Case{12, 64, false, "header size"},
                        Case{16, 4, false, "token width"},
                        Case{16, 0, false, "token width"},
                        Case{20, 16, false, "flags"},
                        Case{20, 12, false, "flags"},
                        Case{20, 8, false, "version and flags"},
                        Case{24, 0, true, "token count"},
                        Case{24, std::uint64_t{1} << 63, true, "token count"},
                        Case{32, 0, true, "document count"},
                        Case{32, 40001, true, "document count"},
                        Case{40, 0, true, "vocabulary size"},
                        Case{40, std::uint64_t{1} << 40, true, "vocabulary size"},
                        Case{48, 5000, true, "largest token id"},
                        Case{64, 0, true, "tokens offset"},
                        Case{72, 136, true, "documents offset"},
                        Case{80, 136, true, "checksums offset"},
                        Case{88, 1, true, "file size"},
                        Case{96, 0, false, "block size"},
                        Case{104, 1, false, "reserved bytes"},
                        Case{120, 1, false, "reserved bytes"}}) {
    bytes_ = whole;
    c.wide ? set(c.offset, c.value) : set(c.offset, static_cast<std::uint32_t>(c.value));
    reseal();
    EXPECT_EQ(refusal_at_open(), named(str("has an invalid header (", c.field, "): prepare the data again")));
  }
}

TEST_F(HostileTokenFile, RefusesIdsAboveTheStatedLargestOne) {
  set(48, std::uint64_t{4998});
  reseal();
  EXPECT_EQ(refusal(),
            named("holds token id 4999 after token 0, above its stated largest id 4998: prepare the data "
                  "again"));
}

TEST_F(HostileTokenFile, RefusesDocumentBordersOutOfOrder) {
  set(header_.documents_offset() + 8, std::uint64_t{10000});
  reseal_block(header_.documents_offset());
  EXPECT_EQ(refusal(), named("has document borders out of order: prepare the data again"));
  EXPECT_EQ(message_of([&] { (void)TokenFile(path_).document(1); }),
            named("has invalid borders of document 1: prepare the data again"));
  set(header_.documents_offset() + 8, std::uint64_t{10001});
  set(header_.documents_offset() + 16, std::uint64_t{39999});
  reseal_block(header_.documents_offset());
  EXPECT_EQ(refusal(), named("has tokens outside of every document: prepare the data again"));
}

TEST_F(HostileTokenFile, RefusesDocumentBordersOutOfOrderBetweenTwoPieces) {
  constexpr int kPiece = 1 << 18;  // documents whose ends are read at once
  header_ = write_counting_file(path_, std::vector<int>(kPiece + 1, 1), 5000);
  bytes_ = read_bytes(path_);
  const std::size_t last_of_piece = header_.documents_offset() + 8 * (kPiece - 1);
  set(last_of_piece, std::uint64_t{kPiece + 1});  // as the first of the next piece
  reseal_block(last_of_piece);
  const std::string expected = named("has document borders out of order: prepare the data again");
  EXPECT_EQ(refusal(), expected);
  const TokenFile file(path_);
  EXPECT_EQ(message_of([&] { DocumentIndex index(file); }), expected);
}

TEST_F(HostileTokenFile, ReportsTruncationDuringUse) {
  const TokenFile file(path_);
  std::filesystem::resize_file(path_, 1000);
  std::vector<std::int64_t> ids(10);
  EXPECT_EQ(
      message_of([&] { file.read(0, ids); }),
      str("cannot read '", path_.string(), "': file ends at byte 1000, 15512 bytes early; it was cut short"));
}

TEST(TokenFileWriter, LeavesNothingWithoutFinish) {
  const TempDir dir;
  {
    TokenFileWriter writer(dir / "a.tok", {.vocab_size = 10, .tokenizer_digest = 0, .flags = 0});
    writer.add_document(std::array<std::int32_t, 1>{3});
    EXPECT_FALSE(std::filesystem::is_empty(dir.path()));
    EXPECT_FALSE(std::filesystem::exists(dir / "a.tok"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(TokenFileWriter, RefusesWhatAReaderWouldRefuse) {
  const TempDir dir;
  const std::string name = str("token file '", (dir / "a.tok").string(), "'");
  TokenFileWriter writer(dir / "a.tok", {.vocab_size = 10, .tokenizer_digest = 0, .flags = 0});
  EXPECT_EQ(message_of([&] { writer.finish(); }), name + " would be empty: no documents");
  EXPECT_EQ(message_of([&] { writer.add_document({}); }), name + ": a document has no tokens");
  EXPECT_EQ(message_of([&] { writer.add_document(std::array<std::int32_t, 1>{10}); }),
            name + ": token id 10 is outside [0, 10), the vocabulary");
  EXPECT_EQ(message_of([&] { writer.add_document(std::array<std::int32_t, 1>{-1}); }),
            name + ": token id -1 is outside [0, 10), the vocabulary");
}

TEST(TokenFileWriter, ReportsAFullDisk) {
  const TempDir dir;
  test::InUse<test::FullDisk> disk;
  const std::string said = message_of([&] { write_counting_file(dir / "a.tok", {100}, 300); });
  EXPECT_TRUE(said.starts_with(str("cannot write '", (dir / "a.tok.").string()))) << said;
  EXPECT_TRUE(said.ends_with(".tmp': No space left on device")) << said;
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(TokenFileWriter, ReportsAMissingFolder) {
  const TempDir dir;
  const std::string said = message_of([&] { write_counting_file(dir / "none" / "a.tok", {1}, 300); });
  EXPECT_TRUE(said.starts_with(str("cannot open for writing '", (dir / "none" / "a.tok.").string()))) << said;
  EXPECT_TRUE(said.ends_with(".tmp': No such file or directory")) << said;
}

}  // namespace
}  // namespace echelon
