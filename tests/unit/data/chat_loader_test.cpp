#include "data/tokens/chat_loader.h"

#include "base/str.h"
#include "data/loader.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using testing::message_of;
using testing::TempDir;

using Ids = std::vector<std::int64_t>;

/// Conversations of the given sizes whose ids count up from 10 over the whole file; odd ids are trained.
DataOptions write_chats(const std::filesystem::path& path, const std::vector<int>& sizes,
                        std::int64_t seq_len) {
  TokenFileWriter writer(path, {.vocab_size = 300, .flags = kDocumentsAreChats});
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
  DataOptions options;
  options.kind = DataKind::kChat;
  options.path = path.string();
  options.seq_len = seq_len;
  options.shuffle = false;
  return options;
}

TEST(ChatLoader, PacksWholeConversationsAndKeepsTheirMask) {
  const TempDir dir;
  const auto loader = make_loader(write_chats(dir / "c.tok", {3, 1, 4, 5, 2}, 5), 300, 1);
  EXPECT_EQ(loader->samples_per_epoch(), 3);  // 2 inputs; 3 (behind one that predicts nothing); 4 and 1
  const auto batch = loader->read(0, 3);
  EXPECT_EQ(batch.ids, (Ids{10, 11, 14, 15, 16, 18, 19, 20, 21, 23}));
  EXPECT_EQ(batch.targets, (Ids{11, -1, 15, -1, 17, 19, -1, 21, -1, -1}));
  EXPECT_EQ(batch.lengths, (Ids{2, 3, 4, 1}));
  EXPECT_EQ(batch.sample_lengths, (Ids{2, 3, 5}));
}

TEST(ChatLoader, RefusesOrLeavesOutWhatIsTooLong) {
  const TempDir dir;
  DataOptions options = write_chats(dir / "c.tok", {3, 9, 2, 7}, 4);
  EXPECT_EQ(message_of([&] { (void)make_loader(options, 300, 1); }),
            str("token file '", options.path,
                "': 2 of 4 conversations are longer than data.seq_len (4), the "
                "longest takes 8: raise data.seq_len, or leave them out with data.on_bad_record: skip and "
                "data.max_bad_records: 2"));
  options.on_bad_record = BadRecord::kSkip;
  const auto batch = make_loader(options, 300, 1)->read(0, 2);
  EXPECT_EQ(batch.ids, (Ids{10, 11, 22}));
  EXPECT_EQ(batch.lengths, (Ids{2, 1}));
  options.max_bad_records = 1;
  EXPECT_NE(message_of([&] { (void)make_loader(options, 300, 1); }), "");
}

TEST(ChatLoader, IsTheOnlyReaderOfConversations) {
  const TempDir dir;
  DataOptions options = write_chats(dir / "c.tok", {3, 3}, 4);
  options.kind = DataKind::kTokens;  // the mask would be lost
  EXPECT_EQ(message_of([&] { (void)make_loader(options, 300, 1); }),
            str("token file '", options.path,
                "' holds conversations, but data.kind is tokens: set data.kind: chat, or name another file"));
  testing::write_counting_file(dir / "a.tok", {3}, 300);
  options.kind = DataKind::kChat;
  options.path = (dir / "a.tok").string();
  EXPECT_EQ(message_of([&] { (void)make_loader(options, 300, 1); }),
            str("token file '", options.path,
                "' holds documents, but data.kind is chat: set data.kind: tokens, or name another file"));
}

}  // namespace
}  // namespace echelon
