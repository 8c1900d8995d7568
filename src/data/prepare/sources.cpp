#include "data/prepare/sources.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"
#include "data/prepare/text_format.h"

namespace echelon::data {
namespace {

namespace stdfs = std::filesystem;

SourceFile examine(const stdfs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    throw Error(Code::kData, "cannot read source '", path.string(), "': ", fs::reason(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    throw Error(Code::kData, "source '", path.string(), "' is neither a file nor a folder");
  }
  return {path,
          static_cast<std::uint64_t>(info.st_size),
          static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec,
          {info.st_dev, info.st_ino}};
}

/// `flags`: of fnmatch(3).
bool matches(const stdfs::path& below, const std::vector<std::string>& include, int flags) {
  return std::ranges::any_of(include, [&](const std::string& pattern) {
    const std::string text =
        pattern.find('/') == std::string::npos ? below.filename().string() : below.string();
    return ::fnmatch(pattern.c_str(), text.c_str(), flags) == 0;
  });
}

bool is_hidden(const stdfs::path& path) {
  return path.filename().string().starts_with('.');
}

struct Found {
  std::vector<SourceFile> files;
  std::set<stdfs::path> other_json;  // which may be data
};

void walk(const stdfs::path& root, const std::vector<std::string>& include, const stdfs::path& output,
          int flags, Found& found) {
  std::error_code error;
  stdfs::recursive_directory_iterator entry(root, error);
  for (; !error && entry != stdfs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      if (is_hidden(entry->path()) || stdfs::equivalent(entry->path(), output, ignored)) {
        entry.disable_recursion_pending();
      }
    } else if (!is_hidden(entry->path()) &&
               (entry->is_regular_file(ignored) || !entry->exists(ignored))) {  // a link that leads nowhere
      if (matches(entry->path().lexically_relative(root), include, flags)) {
        found.files.push_back(examine(entry->path()));
      } else if (matches(entry->path(), {"*.json"}, FNM_CASEFOLD)) {
        found.other_json.insert(entry->path());
      }
    }
  }
  if (error) {
    throw Error(Code::kData, "cannot list source folder '", root.string(), "': ", error.message());
  }
}

std::string remark_on_json(std::size_t count, const PrepareOptions& options) {
  const bool wanted =
      options.format == TextFormat::kBySuffix || options.format == TextFormat::kJsonl || options.chats();
  if (count == 0 || !wanted || !options.include.empty()) return "";
  return str(count, count == 1 ? " .json file of folders is" : " .json files of folders are",
             " left out: name ", count == 1 ? "it" : "them", ", or use --include '*.json'");
}

}  // namespace

Sources list_sources(const PrepareOptions& options) {
  const auto include = options.include.empty() ? default_include(options.format) : options.include;
  Found found;
  auto& files = found.files;
  for (const auto& source : options.sources) {
    const stdfs::path path = stdfs::path(source).lexically_normal();
    std::error_code ignored;
    if (stdfs::is_directory(path, ignored)) {
      walk(path, include, options.leave_out.empty() ? options.output : options.leave_out,
           options.include.empty() ? FNM_CASEFOLD : 0, found);
    } else {
      files.push_back(examine(path));
    }
  }
  const auto by_path = [](const SourceFile& a, const SourceFile& b) {
    return a.path.native() < b.path.native();
  };
  std::ranges::sort(files, by_path);
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  const auto duplicates =
      std::erase_if(files, [&](const SourceFile& file) { return !seen.insert(file.identity).second; });
  for (const SourceFile& file : files) found.other_json.erase(file.path);  // named by itself
  std::string remark = remark_on_json(found.other_json.size(), options);
  if (files.empty()) {
    const bool any_format = options.include.empty() && options.format == TextFormat::kBySuffix;
    throw Error(Code::kData, any_format ? "no source files of a known suffix" : "no source files match ",
                any_format ? "" : join(include, " "), " in ", join(options.sources, ", "),
                remark.empty() ? ": name other sources or patterns (--include)" : "; " + remark);
  }
  return {std::move(files), duplicates, std::move(remark)};
}

}  // namespace echelon::data
