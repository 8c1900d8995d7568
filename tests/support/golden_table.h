#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Texts that tests expect word for word, many to a file: the tables below tests/golden. Their format stands
/// in docs/contributing.md, "Golden tables"; tests/e2e/golden.py reads and writes it, too.
namespace echelon::test {

/// What stands in a table between a line `== NAME` and the next one.
struct GoldenCase {
  std::string name;
  /// Name and text of each part. The first one, right below the case's name, has the name "".
  std::vector<std::pair<std::string, std::string>> parts;

  /// The text of a part; nullptr where there is none of that name.
  [[nodiscard]] const std::string* part(std::string_view part_name) const;
};

struct GoldenTable {
  std::string about;  ///< what stands above the first case
  std::vector<GoldenCase> cases;

  /// nullptr where there is none of that name.
  [[nodiscard]] const GoldenCase* find(std::string_view name) const;
};

/// `content` of a file as a table. Throws Error(kUsage) "FILE:LINE: ..." for a name given twice and an escape
/// that is none.
[[nodiscard]] GoldenTable parse_golden(std::string_view content, const std::string& file);
[[nodiscard]] GoldenTable read_golden(const std::filesystem::path& file);
/// The one spelling of a table that updates write: parse_golden() of it is `table`.
[[nodiscard]] std::string spell_golden(const GoldenTable& table);

/// All tables in `folder`, sorted by name.
[[nodiscard]] std::vector<std::filesystem::path> golden_tables(const std::filesystem::path& folder);

/// What the table expects of a case. With ECHELON_UPDATE_GOLDEN=1 the table takes over `said` first, also
/// while other processes update it. Throws Error(kUsage) with `said` where the table has no such case or
/// part.
[[nodiscard]] std::string golden(const std::filesystem::path& table, const std::string& name,
                                 const std::string& part, const std::string& said);

}  // namespace echelon::test
