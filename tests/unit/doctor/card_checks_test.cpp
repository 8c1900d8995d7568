#include "app/doctor/checks/card_checks.h"

#include <gtest/gtest.h>

#include "support/matches.h"

namespace echelon::app::doctor {
namespace {

using Names = std::vector<std::string>;

/// `nodes` nodes in order with two ranks and two GPUs each.
std::vector<NodeCard> cards_of(int nodes) {
  std::vector<NodeCard> cards;
  for (int rank = 0; rank < 2 * nodes; ++rank) {
    NodeCard card{.host = "n" + std::to_string(rank / 2), .node = rank / 2, .local_rank = rank % 2};
    card.local_size = 2;
    card.versions = {{"echelon", "1.0"}, {"kernel", "6.1"}};
    card.cores = "0-3";
    card.clock_s = 1000 + rank * 0.001;
    card.memory_bytes = std::uint64_t{64} << 30;
    card.locked_memory = ~std::uint64_t{0};
    if (rank % 2 == 0) card.gpus = {{.name = "H100", .max_mhz = 1980}, {.name = "H100", .max_mhz = 1980}};
    card.shm.available_bytes = card.tmp.available_bytes = std::uint64_t{1} << 30;
    cards.push_back(card);
  }
  return cards;
}

void expect(const Finding& finding, Verdict verdict, const Names& nodes, const std::string& text) {
  EXPECT_EQ(finding.verdict, verdict) << finding.text;
  EXPECT_EQ(finding.nodes, nodes) << finding.text;
  EXPECT_MENTIONS(finding.text, text);
}

TEST(CardChecks, FindNothingOnNodesThatAreAlike) {
  for (const Finding& finding : check_cards(cards_of(3))) expect(finding, Verdict::kOk, {}, "");
}

TEST(CardChecks, NameTheRankWhoseVersionDiffers) {
  auto cards = cards_of(3);
  cards[3].versions["echelon"] = "0.9";
  expect(check_versions(cards), Verdict::kFault, {"n1"}, "rank 3 on n1 has echelon 0.9, others 1.0");
  cards = cards_of(3);
  cards[4].versions["kernel"] = cards[5].versions["kernel"] = "5.4";
  expect(check_versions(cards), Verdict::kWarning, {"n2"}, "rank 4 on n2 has kernel 5.4, others 6.1");
}

TEST(CardChecks, NameTheNodeWithFewerGpus) {
  auto cards = cards_of(3);
  cards[2].gpus.pop_back();
  expect(check_gpu_count(cards), Verdict::kFault, {"n1"}, "n1 shows 1 of the 2 GPUs that others show");
  cards = cards_of(1);
  cards[0].gpus.clear();
  cards[0].instance = "p5.48xlarge";
  cards[0].versions["driver"] = "no CUDA driver";
  expect(check_gpu_count(cards), Verdict::kFault, {"n0"},
         "(p5.48xlarge) has 8 GPUs and shows none: no CUDA driver");
}

TEST(CardChecks, NameTheGpuThatIsSlowerThanTheOthers) {
  auto cards = cards_of(2);
  cards[2].gpus[1].max_mhz = 1200;
  expect(check_gpu_clocks(cards), Verdict::kFault, {"n1"},
         "GPU 1 of n1 runs at up to 1200 MHz, others at 1980");
  cards = cards_of(2);
  cards[0].gpus[0].slowed_by = 0x80;
  expect(check_gpu_clocks(cards), Verdict::kFault, {"n0"}, "GPU 0 of n0 is slowed down by power brake");
  cards[0].gpus[0].slowed_by = 0x1 | 0x2 | 0x4;  // idle, application clocks, power cap
  expect(check_gpu_clocks(cards), Verdict::kOk, {}, "");
}

TEST(CardChecks, HoldEfaDevicesAgainstTheInstanceTypeElseAgainstOthers) {
  auto cards = cards_of(2);
  cards[0].efa_devices = 1;
  expect(check_efa(cards), Verdict::kFault, {"n1"}, "n1 has 0 EFA devices, expected 1");
  for (NodeCard& card : cards) {
    card.instance = "p5en.48xlarge";
    card.efa_devices = 16;
  }
  expect(check_efa(cards), Verdict::kOk, {}, "16 EFA devices");
  cards[2].efa_devices = 15;
  expect(check_efa(cards), Verdict::kFault, {"n1"}, "n1 (p5en.48xlarge) has 15 EFA devices, expected 16");
}

TEST(CardChecks, NameWhatKeepsEfaFromBeingUsed) {
  auto cards = cards_of(1);
  cards[0].efa_devices = 4;
  cards[0].ofi_plugin = true;
  cards[0].environment["FI_PROVIDER"] = "efa";
  expect(check_efa_use(cards), Verdict::kOk, {}, "");
  cards[0].locked_memory = 65536;
  expect(check_efa_use(cards), Verdict::kWarning, {"n0"}, "may lock 64.0 KiB");
}

TEST(CardChecks, NameNodesWithLessMemoryOtherClocksOrOtherNumbersOfRanks) {
  auto cards = cards_of(3);
  cards[4].memory_bytes /= 2;
  expect(check_memory_size(cards), Verdict::kWarning, {"n2"}, "n2 has 32.0 GiB of memory, others 64.0 GiB");
  cards[2].clock_s -= 60;
  expect(check_time(cards), Verdict::kWarning, {"n1"}, "the clock of n1 is 60 s behind");
  cards[0].local_size = 3;
  expect(check_ranks(cards), Verdict::kWarning, {"n0"}, "n0 has 3 ranks where others have 2");
  cards = cards_of(2);
  cards[2].cores = cards[3].cores = "5";
  expect(check_ranks(cards), Verdict::kWarning, {"n1"}, "the 2 ranks of n1 may use 1 cores");
}

}  // namespace
}  // namespace echelon::app::doctor
