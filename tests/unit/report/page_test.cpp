#include "report/page/page.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/matches.h"
#include "support/temp_dir.h"

namespace echelon::report {
namespace {

constexpr double kAfter_s = 1'700'009'000;  ///< long after the runs of these tests

/// A run folder with some files, and its page.
class PageOfARun : public testing::Test {
 protected:
  PageOfARun() { std::filesystem::create_directory(folder_.path() / "logs"); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  /// `starts`: objects of goodput.json without their times; each lasts 1000 s.
  void write_starts(const std::vector<std::string>& starts) const {
    std::string text;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::size_t began = 1'700'000'000 + 2000 * i;
      text += (i == 0 ? "" : ",\n") + std::string("{\"began\": ") + std::to_string(began) +
              ", \"ended\": " + std::to_string(began + 1000) + ", " + starts[i] + "}";
    }
    write("goodput.json", "{\"starts\": [" + text + "]}");
  }
  /// In `lines` of metrics.jsonl, rank 1 works longest in `slow` and rank 0 in the others.
  void write_spread(int lines, int slow) const {
    std::string text;
    for (int i = 1; i <= lines; ++i) {
      text += "{\"step\": " + std::to_string(i) +
              R"(, "spread": {"work_s": {"min": 1, "median": 2, "max": 4, "max_rank": )" +
              (i <= slow ? "1" : "0") + "}}}\n";
    }
    write("metrics.jsonl", text);
  }
  [[nodiscard]] std::string made() const {
    RunReader reader(folder_.path());
    const RunRecord run = reader.read(kAfter_s);
    return page({{run, reader.metrics()}}, {.now_s = kAfter_s});
  }
  [[nodiscard]] bool shows(const std::string& text) const { return made().find(text) != std::string::npos; }

 private:
  test::TempDir folder_;
};

TEST_F(PageOfARun, HasNoValuesWhereACurveHasNone) {
  write("metrics.jsonl",
        "{\"step\": 1, \"loss\": 6}\n{\"step\": 2, \"loss\": 5, \"validation_loss\": 4}\n"
        "{\"step\": 3, \"loss\": 3}\n");
  EXPECT_MENTIONS(made(), "<tr><th scope=\"row\">1</th><td>6</td><td></td></tr>",
                  "<tr><th scope=\"row\">2</th><td>5</td><td>4</td></tr>",
                  "<tr><th scope=\"row\">3</th><td>3</td><td></td></tr>");
}

TEST_F(PageOfARun, TellsRequeuesFromRestartsInPlace) {
  write_starts({R"("job": "8", "end": "failed")", R"("job": "8", "end": "failed", "in_place": true)",
                R"("job": "8", "end": "stopped", "in_place": true)",
                R"("job": "8", "restart": 1, "end": "failed")",
                R"("job": "8", "restart": 1, "end": "finished", "in_place": true)"});
  const std::string html = made();
  for (const char* job : {"<td>8</td>", "<td>8 (restart in place 1)</td>", "<td>8 (restart in place 2)</td>",
                          "<td>8 (requeue 1)</td>", "<td>8 (requeue 1, restart in place 1)</td>"})
    EXPECT_MENTIONS(html, job) << job;
}

TEST_F(PageOfARun, SaysThatAStartWentOnFromMemory) {
  write_starts({R"("end": "failed", "last_step": 710, "saved_step": 650)",
                R"("end": "finished", "first_step": 700, "last_step": 900, "saved_step": 900)"});
  write("logs/rank-0.log",
        "2023-11-14T23:46:45.000+01:00 I [rank 0/2 n0] resumed from step 700 (memory of n0, n1)\n");
  const std::string html = made();
  EXPECT_MENTIONS(html, "<td>0 to 710</td><td>650</td>", "<td>700 (from memory) to 900</td><td>900</td>");
}

TEST_F(PageOfARun, NamesNoStragglerThatChanceNames) {
  struct Case {
    const char* ranks;
    int lines;
    int slow;
    bool named;
  };
  for (const Case& one : {Case{"2", 100, 61, false}, Case{"2", 100, 74, false}, Case{"2", 100, 80, true},
                          Case{"2", 3, 3, false}, Case{"8", 100, 61, true}, Case{"8", 100, 30, false}}) {
    write_starts({std::string(R"("end": "finished", "ranks": )") + one.ranks});
    write_spread(one.lines, one.slow);
    EXPECT_EQ(shows("Straggler: rank 1"), one.named)
        << one.ranks << " ranks, " << one.slow << " of " << one.lines;
  }
}

TEST_F(PageOfARun, ShowsAFailureAsOneAndAStopOnPurposeNot) {
  const std::string stop = "2023-11-14T22:23:20.000+00:00 I [rank 0/2 n0] stopping after step 57: SIGTERM\n";
  const std::string failure = "2023-11-14T22:23:20.000+00:00 E [rank 0/2 n0] the disk is full\n";
  write_starts({R"("end": "stopped")"});
  write("logs/rank-0.log", stop);
  EXPECT_TRUE(shows("<p class=\"cause wanted\">stopping after step 57: SIGTERM</p>"));
  write_starts({R"("end": "failed")"});
  write("logs/rank-0.log", failure);
  EXPECT_TRUE(shows("<p class=\"cause\">the disk is full</p>"));
}

}  // namespace
}  // namespace echelon::report
