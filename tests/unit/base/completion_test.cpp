#include "base/terminal/completion.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/terminal/manual_page.h"
#include "support/matches.h"

namespace echelon {
namespace {

/// A program with what real ones have: commands in commands, arguments, a list, flags, choices.
struct Tool {
  CLI::App app{"Does things.\nAt length.", "tool"};
  std::vector<std::string> texts;
  std::string text;
  bool flag = false;

  Tool() {
    CLI::App* copy = app.add_subcommand("copy", "Copies");
    copy->add_option("from", text, "Source")->required();
    copy->add_option("more", texts, "Others");
    copy->add_option("--kind", text, "What kind")->check(CLI::IsMember({"small", "large"}));
    copy->add_option("--place", text, "Where");
    copy->add_flag("-f,--force", flag, "Overwrite");
    app.add_subcommand("group", "Has more")->add_subcommand("inner", "Is within");
  }

  /// The texts of complete(), with "NAME!" as the value of each argument.
  [[nodiscard]] std::vector<std::string> offer(const std::vector<std::string>& words) const {
    std::vector<std::string> found;
    for (const Candidate& candidate : complete(app, words, [](const std::string&name, const std::string&) {
           return std::vector<Candidate>{{name + '!', ""}};
         }))
      found.push_back(candidate.text);
    return found;
  }
};

using Texts = std::vector<std::string>;

TEST(Completion, OffersCommandsWhereOneIsExpected) {
  const Tool program;
  EXPECT_EQ(program.offer({""}), (Texts{"copy", "group"}));
  EXPECT_EQ(program.offer({"c"}), Texts{"copy"});
  EXPECT_EQ(program.offer({"group", ""}), Texts{"inner"});
  EXPECT_EQ(program.offer({"x"}), Texts{});
  EXPECT_EQ(program.offer({}), (Texts{"copy", "group"}));
}

TEST(Completion, OffersTheArgumentOfThisPlace) {
  const Tool program;
  EXPECT_EQ(program.offer({"copy", ""}), Texts{"from!"});
  EXPECT_EQ(program.offer({"copy", "a", ""}), Texts{"more!"});
  EXPECT_EQ(program.offer({"copy", "a", "b", "c", ""}), Texts{"more!"});
  EXPECT_EQ(program.offer({"copy", "--kind", "small", "-f", ""}), Texts{"from!"});
  EXPECT_EQ(program.offer({"copy", "a", "group", ""}), Texts{"more!"}) << "a word that is also a command's";
}

TEST(Completion, OffersOptionsAndTheirValues) {
  const Tool program;
  EXPECT_EQ(program.offer({"copy", "--f"}), Texts{"--force"});
  EXPECT_EQ(program.offer({"copy", "--kind", ""}), (Texts{"small", "large"}));
  EXPECT_EQ(program.offer({"copy", "--kind=l"}), Texts{"--kind=large"});
  EXPECT_EQ(program.offer({"copy", "--place", ""}), Texts{"--place!"});
  EXPECT_EQ(program.offer({"copy", "--unknown="}), Texts{});
  EXPECT_EQ(program.offer({"copy", "--", "--f"}), Texts{}) << "options are over";
}

TEST(ManualPage, EscapesWhatRoffWouldRead) {
  CLI::App app("Says .x 'y \\z - and .TH", "tool");
  const std::string page = manual_page(app, app, "tool", "2001-09-09");
  EXPECT_MENTIONS(page, "tool \\-\nSays \\&.x \\&'y \\ez \\- and \\&.TH\n");
}

}  // namespace
}  // namespace echelon
