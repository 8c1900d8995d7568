#include "gpu/fibers/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

namespace echelon::fibers {
namespace {

struct Range {
  std::size_t begin;
  std::size_t end;
};
/// The program's own segments: dl_iterate_phdr's first.
struct Segments {
  std::size_t base = 0;
  std::vector<Range> constant;
};

const Segments& segments() {
  static const Segments own = [] {
    Segments found;
    const auto visit = [](dl_phdr_info* info, std::size_t, void* to) {
      auto& segments = *static_cast<Segments*>(to);
      segments.base = info->dlpi_addr;
      for (int n = 0; n < info->dlpi_phnum; ++n) {
        const auto& header = info->dlpi_phdr[n];
        if (header.p_type != PT_LOAD || (header.p_flags & PF_W) != 0) continue;
        const std::size_t begin = info->dlpi_addr + header.p_vaddr;
        segments.constant.push_back({begin, begin + header.p_memsz});
      }
      return 1;
    };
    dl_iterate_phdr(visit, &found);
    return found;
  }();
  return own;
}

std::string readable(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                     std::free);
  return status == 0 ? plain.get() : name;
}

template <class T>
const T* at(const std::vector<char>& file, std::size_t offset) {
  return reinterpret_cast<const T*>(file.data() + offset);
}

std::vector<Symbol> read_symbols() {
  std::ifstream own("/proc/self/exe", std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(own), {}};
  const auto* header = at<Elf64_Ehdr>(file, 0);
  const auto* sections = at<Elf64_Shdr>(file, header->e_shoff);
  std::vector<Symbol> found;
  for (int n = 0; n < header->e_shnum; ++n) {
    if (sections[n].sh_type != SHT_SYMTAB) continue;
    const char* names = at<char>(file, sections[sections[n].sh_link].sh_offset);
    const auto* table = at<Elf64_Sym>(file, sections[n].sh_offset);
    for (std::size_t i = 0; i < sections[n].sh_size / sizeof(Elf64_Sym); ++i) {
      const int type = ELF64_ST_TYPE(table[i].st_info);
      if (table[i].st_size == 0 || (type != STT_FUNC && type != STT_OBJECT)) continue;
      found.push_back({segments().base + table[i].st_value, table[i].st_size,
                       readable(names + table[i].st_name), type == STT_FUNC});
    }
  }
  std::sort(found.begin(), found.end(), [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; });
  return found;
}

}  // namespace

const std::vector<Symbol>& symbols() {
  static const std::vector<Symbol> all = read_symbols();
  return all;
}

const Symbol* symbol_at(const void* address) {
  const auto wanted = reinterpret_cast<std::size_t>(address);
  auto after = std::upper_bound(symbols().begin(), symbols().end(), wanted,
                                [](std::size_t value, const Symbol& symbol) { return value < symbol.begin; });
  if (after == symbols().begin()) return nullptr;
  const Symbol& symbol = *--after;
  return wanted < symbol.begin + symbol.bytes ? &symbol : nullptr;
}

bool is_constant(const void* address) {
  const auto wanted = reinterpret_cast<std::size_t>(address);
  const auto& ranges = segments().constant;
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return wanted >= range.begin && wanted < range.end; });
}

}  // namespace echelon::fibers
