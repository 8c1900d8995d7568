#include "base/terminal/manual_page.h"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/number.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/utc_time.h"

namespace echelon {
namespace {

/// `text` as roff reads it back: no escapes, no control lines, hyphens that can be copied.
std::string roff(const std::string& text) {
  std::string written;
  for (const char c : text) {
    const bool begins_line = written.empty() || written.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) written += "\\&";
    if (c == '\\')
      written += "\\e";
    else if (c == '-')
      written += "\\-";
    else
      written += c;
  }
  return written;
}

/// roff() of `text` in lines of at most 80 characters, as mandoc wants them.
std::string lines(const std::string& text) {
  constexpr std::size_t kMost = 80;
  std::string written;
  std::size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::string shown = roff(word);
    const bool fits = column + 1 + shown.size() <= kMost;
    if (column > 0) written += fits ? ' ' : '\n';
    column = column > 0 && fits ? column + 1 + shown.size() : shown.size();
    written += shown;
  }
  return written;
}

/// "-q,--quiet", "--ranks INT [1 - 4096]", or "recipe" for an argument.
std::string heading(const CLI::Option& option) {
  const std::string name = roff(option.get_name(option.get_positional(), true));
  const std::string type = takes_value(option) ? ' ' + roff(option.get_type_name()) : "";
  return str(option.get_positional() ? "\\fI" : "\\fB", name, "\\fR", type == " " ? "" : type);
}

void add_options(const CLI::App& command, bool positional, std::string& page) {
  std::string part;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() != positional) continue;
    const std::string standard = option->get_default_str();
    part += str(".TP\n", heading(*option), '\n',
                lines(option->get_description() + (standard.empty() ? "" : str(" (default ", standard, ")"))),
                '\n');
  }
  if (!part.empty()) page += str(".SH ", positional ? "ARGUMENTS" : "OPTIONS", '\n', part);
}

std::string synopsis(const CLI::App& command, const std::string& words) {
  std::string text = str(".B ", roff(words), "\n[\\fIoptions\\fR]");
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name =
        str("\\fI", roff(option->get_name(true)), "\\fR", option->get_items_expected_max() > 1 ? "..." : "");
    text += option->get_required() ? ' ' + name : str(" [", name, ']');
  }
  return text + (commands_of(command).empty() ? "\n" : " \\fIcommand\\fR\n");
}

std::string date_of_pages() {
  auto seconds = static_cast<std::int64_t>(utc_now_s());
  if (const char* given = std::getenv("SOURCE_DATE_EPOCH")) (void)read_integer(given, seconds);
  return utc_text(static_cast<double>(seconds), "%Y-%m-%d");
}

void write_pages(const CLI::App& app, const CLI::App& command, const std::string& name,
                 const fs::Path& folder, std::string_view date) {
  fs::replace_file(folder / (name + ".1"), manual_page(app, command, name, date), Code::kUsage);
  for (const CLI::App* below : commands_of(command))
    write_pages(app, *below, str(name, '-', below->get_name()), folder, date);
}

}  // namespace

std::string manual_page(const CLI::App& app, const CLI::App& command, const std::string& name,
                        std::string_view date) {
  std::string title = name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string words = app.get_name();
  if (&command != &app) {
    words = name;
    for (std::size_t i = app.get_name().size(); i < words.size(); ++i)
      words[i] = words[i] == '-' ? ' ' : words[i];
  }
  const std::string about = command.get_description();
  const std::size_t end = about.find('\n');
  std::string page =
      str(".TH ", title, " 1 ", date, " \"", app.get_name(), "\" \"User Commands\"\n.SH NAME\n", name,
          " \\-\n", lines(about.substr(0, end)), "\n.SH SYNOPSIS\n", synopsis(command, words));
  if (end != about.npos) page += str(".SH DESCRIPTION\n", lines(about.substr(end + 1)), '\n');
  if (&command == &app && !app.get_footer().empty())
    page += str(".SH NOTES\n", lines(app.get_footer()), '\n');
  std::string below;
  for (const CLI::App* each : commands_of(command))
    below += str(".TP\n.BR ", name, '-', each->get_name(), " (1)\n", lines(each->get_description()), '\n');
  if (!below.empty()) page += ".SH COMMANDS\n" + below;
  add_options(command, true, page);
  add_options(command, false, page);
  if (&command != &app) page += str(".SH SEE ALSO\n.BR ", app.get_name(), " (1)\n");
  return page;
}

void add_manual(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("manual", "Write the manual pages of all commands, for man(1)");
  command->add_option("folder", *folder, "The pages go to man1/ in it, so that MANPATH may name it")
      ->required();
  command->callback([folder, &app] {
    const fs::Path pages = fs::Path(*folder) / "man1";
    fs::make_directories(pages, Code::kUsage);
    write_pages(app, app, app.get_name(), pages, date_of_pages());
    std::cout << pages.string() << '\n';
  });
}

}  // namespace echelon
