#include "data/tokens/chat_loader.h"

#include "unit/data/token_data.h"

namespace echelon {
namespace {

using namespace testing;  // NOLINT

using Ids = std::vector<std::int64_t>;

/// Conversations of the given sizes whose ids count up from 10 over the whole file; odd ids are trained.
/// `more`: flags of the file.
DataOptions write_chats(const std::filesystem::path& path, const std::vector<int>& sizes,
                        std::int64_t seq_len, std::uint32_t more = 0) {
  TokenFileWriter writer(path, {.vocab_size = 300, .flags = kDocumentsAreChats | more});
  std::int32_t next = 10;
  for (const int size : sizes) {
    std::vector<std::int32_t> ids;
    std::vector<bool> trained;
    for (int i = 0; i < size; ++i) {
      trained.push_back(next % 2 == 1);
      ids.push_back(next++);
    }
    writer.add_chat(ids, trained);
  }
  writer.finish();
  DataOptions options = in_order(path, seq_len);
  options.kind = more == 0 ? DataKind::kChat : DataKind::kPreference;

  return options;
}

using ConversationLoader = InTempDir;

TEST_F(ConversationLoader, PacksWholeConversationsAndKeepsTheirMask) {
  const auto loader = make_loader(write_chats(dir / "c.tok", {3, 1, 4, 5, 2}, 5), 300, 1);
  EXPECT_EQ(loader->samples_per_epoch(), 3);  // 2 inputs; 3 (behind one that predicts nothing); 4 and 1
  const auto batch = loader->read(0, 3);
  EXPECT_EQ(batch.ids, (Ids{10, 11, 14, 15, 16, 18, 19, 20, 21, 23}));
  EXPECT_EQ(batch.targets, (Ids{11, -1, 15, -1, 17, 19, -1, 21, -1, -1}));
  EXPECT_EQ(batch.lengths, (Ids{2, 3, 4, 1}));
  EXPECT_EQ(batch.sample_lengths, (Ids{2, 3, 5}));
}

TEST_F(ConversationLoader, RefusesOrLeavesOutWhatIsTooLong) {
  DataOptions options = write_chats(dir / "c.tok", {3, 9, 2, 7}, 4);
  EXPECT_EQ(refused(options),
            ": 2 of 4 conversations are longer than data.seq_len (4), the longest takes 8: raise "
            "data.seq_len, or leave them out with data.on_bad_record: skip and data.max_bad_records: 2");
  options.on_bad_record = BadRecord::kSkip;
  const auto batch = make_loader(options, 300, 1)->read(0, 2);
  EXPECT_EQ(batch.ids, (Ids{10, 11, 22}));
  EXPECT_EQ(batch.lengths, (Ids{2, 1}));
  options.max_bad_records = 1;
  EXPECT_NE(refused(options), "");
}

TEST_F(ConversationLoader, AdvisesARoomThatHoldsSomething) {
  DataOptions options = write_chats(dir / "c.tok", {5, 9, 1}, 3);
  const std::string said =
      ": 2 of 3 conversations are longer than data.seq_len (3), the longest takes 8, the shortest 4: raise "
      "data.seq_len; with all of them left out there is nothing to train on";
  EXPECT_EQ(refused(options), said);
  options.on_bad_record = BadRecord::kSkip;
  EXPECT_EQ(refused(options), said);
  options = write_chats(dir / "c.tok", {1, 1}, 3);
  EXPECT_EQ(refused(options),
            " has no conversation of more than one token, the least that predicts something: prepare the "
            "data again");
}

TEST_F(ConversationLoader, KeepsBothAnswersOfAPairTogether) {
  // Inputs: 2 + 1, 3 + 2, 1 + 1, 4 + 4 (too long), 2 + 2.
  DataOptions options =
      write_chats(dir / "p.tok", {3, 2, 4, 3, 2, 2, 5, 5, 3, 3}, 7, kDocumentsArePreferences);
  EXPECT_EQ(refused(options),
            ": 1 of 5 pairs of answers are longer than data.seq_len (7), the longest takes 8: raise "
            "data.seq_len, or leave them out with data.on_bad_record: skip and data.max_bad_records: 1");
  options.on_bad_record = BadRecord::kSkip;
  const auto loader = make_loader(options, 300, 1);
  ASSERT_EQ(loader->reference()->size(), 10);
  for (std::size_t i = 0; i < 10; ++i) (*loader->reference())[i] = static_cast<double>(i);
  EXPECT_EQ(loader->samples_per_epoch(), 3);
  const auto batch = loader->read(0, 3);
  EXPECT_EQ(batch.lengths, (Ids{2, 1, 3, 2, 1, 1, 2, 2}));
  EXPECT_EQ(batch.sample_lengths, (Ids{3, 7, 4}));
  EXPECT_EQ(batch.answers, (Ids{0, 1, 2, 3, 4, 5, 8, 9}));
  EXPECT_EQ(batch.reference, (std::vector<double>{0, 1, 2, 3, 4, 5, 8, 9}));
  EXPECT_EQ(make_loader(write_chats(dir / "c.tok", {3}, 4), 300, 1)->reference(), nullptr);
}

TEST_F(ConversationLoader, RefusesAnAnswerThatPredictsNothing) {
  const DataOptions options = write_chats(dir / "p.tok", {3, 1}, 7, kDocumentsArePreferences);
  EXPECT_EQ(refused(options), ": answer 1 has one token, which predicts nothing: prepare the data again");
}

TEST_F(ConversationLoader, NoFileHoldsHalfAPair) {
  EXPECT_NE(message_of([&] { (void)write_chats(dir / "p.tok", {3}, 7, kDocumentsArePreferences); }), "");
}

TEST_F(ConversationLoader, IsTheOnlyReaderOfConversations) {
  DataOptions options = write_chats(dir / "c.tok", {3, 3}, 4);
  options.kind = DataKind::kTokens;  // the mask would be lost
  EXPECT_EQ(refused(options),
            " holds conversations, but data.kind is tokens: set data.kind: chat, or name another file");
  testing::write_counting_file(dir / "a.tok", {3}, 300);
  options.kind = DataKind::kChat;
  options.path = (dir / "a.tok").string();
  EXPECT_EQ(refused(options),
            " holds documents, but data.kind is chat: set data.kind: tokens, or name another file");
}

}  // namespace
}  // namespace echelon
