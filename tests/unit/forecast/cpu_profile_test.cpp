#include "forecast/cpu_profile.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"

namespace echelon::forecast {
namespace {

/// An addition of 1 MB takes 1 ms, in one of several threads 4 ms; a thread needs 10 us before each, and 50
/// us behind a product.
CpuProfile round_profile() {
  CpuProfile profile{.name = "cpu", .title = "CPU ranks", .ranks_per_node = 2, .threads = 4, .cores = 8};
  profile.works = {{"add fp32", {{0, 1e6, 1e-3}}}, {"add fp32*", {{0, 1e6, 4e-3}}}};
  profile.before = {{"add fp32", {{0, 1e6, 10e-6}}},
                    {"add fp32*", {{0, 1e6, 10e-6}}},
                    {"add fp32* after mm", {{0, 1e6, 50e-6}}}};
  profile.messages = {{"all_gather", {{0, 1e6, 2e-3}}},
                      {"reduce_scatter fp32", {{0, 1e6, 3e-3}}},
                      {"reduce_scatter bf16 alone", {{0, 2e6, 5e-3}}}};
  return profile;
}

Trace two_names() {
  Trace trace;
  trace.names = {"add", "mm"};
  return trace;
}

constexpr std::uint16_t kAdd = 0;
constexpr std::uint16_t kProduct = 1;

TEST(CpuRates, OfWorkAreMeasuredOnesAndWhatTheirThreadDidBefore) {
  const Trace trace = two_names();
  const CpuRates rates(round_profile(), trace);
  struct Case {
    const char* what;
    Work work;
    double seconds;
  };
  const Case cases[] = {
      {"whole", {.bytes = 1e6, .name = kAdd, .after = kAdd}, 1e-3 + 10e-6},
      {"four parts at once", {.bytes = 4e6, .name = kAdd, .after = kAdd, .divided = true}, 4e-3 + 10e-6},
      {"behind a product", {.bytes = 4e6, .name = kAdd, .after = kProduct, .divided = true}, 4e-3 + 50e-6},
      {"one of several unequal tasks",
       {.bytes = 1e6, .name = kAdd, .after = kAdd, .divided = true, .tasks = 1},
       (4e-3 + 10e-6) / 4},
      {"nine equal tasks in three turns",
       {.bytes = 9e6, .name = kAdd, .after = kProduct, .again_after = kAdd, .divided = true, .tasks = 9},
       3 * 4e-3 + 50e-6 + 2 * 10e-6},
      {"nothing", {.name = kAdd}, 0}};
  for (const Case& c : cases) EXPECT_NEAR(rates.seconds(c.work), c.seconds, 1e-9) << c.what;
}

TEST(CpuRates, OfMessagesAreThoseOfTheirKindAndTypeByBytesSent) {
  const Trace trace;
  const CpuRates rates(round_profile(), trace);
  const Group pair{{0, 1}};
  const Group alone{{0}};
  const Message gather{.kind = OperationKind::kAllGather, .type = DType::kBF16, .sent_bytes = 1e6};
  EXPECT_NEAR(rates.seconds(gather, pair), 2e-3, 1e-9);
  // No two-byte sums of several ranks were measured.
  const Message reduce{
      .kind = OperationKind::kReduceScatter, .type = DType::kBF16, .count = 1000000, .sent_bytes = 1e6};
  EXPECT_NEAR(rates.seconds(reduce, pair), 3e-3, 1e-9);
  EXPECT_NEAR(rates.seconds(reduce, alone), 5e-3, 1e-9);
  EXPECT_EQ(rates.seconds(gather, alone), 0);
}

/// What read_cpu_profile() says of a file with this text.
std::string fault_of(const std::string& text) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "profile.json").string();
  std::ofstream(file) << text;
  return test::error_of([&] { (void)read_cpu_profile(file); });
}

TEST(CpuProfileFile, ReadsWhatWasWritten) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "profile.json").string();
  std::ofstream(file) << to_json(round_profile());
  ASSERT_TRUE(is_cpu_profile(file));
  EXPECT_EQ(to_json(read_cpu_profile(file)), to_json(round_profile()));
}

TEST(CpuProfileFile, NamesTheKeyThatIsWrong) {
  const std::string whole = to_json(round_profile());
  const auto changed = [&whole](const std::string& from, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_MENTIONS(fault_of(changed("\"before\"", "\"other\"")), "before: expected an object of lists");
  EXPECT_MENTIONS(fault_of(changed("\"threads\": 4", "\"threads\": 0")),
                  "threads: expected a number above 0");
  EXPECT_MENTIONS(fault_of(changed("0.001", "-0.001")), "works.add fp32: expected numbers above 0");
  EXPECT_MENTIONS(fault_of(changed("0.001", "\"soon\"")), "works.add fp32: expected lists of FLOPs");
}

}  // namespace
}  // namespace echelon::forecast
