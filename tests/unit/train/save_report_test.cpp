#include "train/save/save_report.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/blob_text.h"

namespace echelon {
namespace {

using State = SaveReport::State;

TEST(SaveReport, ArrivesAsItWasSent) {
  for (const SaveReport& sent :
       {SaveReport{}, SaveReport{.state = State::kDone, .next_id = "0123456789abcdef"},
        SaveReport{.state = State::kFailed, .error = "No space left on device"},
        SaveReport{.state = State::kFailed, .next_id = "f", .error = std::string("a\0b", 3)}}) {
    const SaveReport came = decode_save_report(encode(sent));
    EXPECT_EQ(came.state, sent.state);
    EXPECT_EQ(came.next_id, sent.next_id);
    EXPECT_EQ(came.error, sent.error);
  }
}

TEST(SaveReport, BytesOfNoReportAreRefused) {
  Blob cut = encode({.state = State::kDone, .next_id = "abc"});
  cut.pop_back();
  EXPECT_THROW((void)decode_save_report(cut), Error);
  EXPECT_THROW((void)decode_save_report({}), Error);
  EXPECT_THROW((void)decode_save_report(Blob(1)), Error);
  EXPECT_THROW((void)decode_save_report(to_blob(std::string("\x06\0", 2))), Error) << "no such state";
}

TEST(SaveReport, AnIdThatIsTooLongIsNotCutShort) {
  EXPECT_THROW((void)encode({.next_id = std::string(256, 'a')}), Error);
  EXPECT_EQ(decode_save_report(encode({.next_id = std::string(255, 'a')})).next_id.size(), 255U);
}

}  // namespace
}  // namespace echelon
