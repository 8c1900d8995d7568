#include "forecast/profile.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_json.h"
#include "base/foreign_text.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::forecast {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kMaxReported = 50;

/// The range of one kind of number; all numbers are above 0.
struct Range {
  double least;
  double most;
  const char* expected;
};
constexpr Range kMemory{1e8, 1e13, "a number of bytes from 1e8 to 1e13"};
constexpr Range kContext{1, 1e13, "a number of bytes from 1 to 1e13"};
constexpr Range kRate{1e6, 1e14, "a number of bytes per second from 1e6 to 1e14"};
constexpr Range kFlops{1e9, 1e17, "a number of operations per second from 1e9 to 1e17"};
constexpr Range kFraction{0, 1, "a fraction above 0 and at most 1"};
constexpr Range kSeconds{0, 1, "a number of seconds above 0 and at most 1"};

std::string shown(const Json& value) {
  return printable(json_text(value, -1), 40);
}

struct Faults {
  std::string where;
  std::vector<std::string> lines{};

  void add(const std::string& key, const std::string& what) {
    lines.push_back(str(where, ": ", key, ' ', what));
  }
  void raise_if_any() {
    if (lines.empty()) return;
    if (lines.size() > kMaxReported) {
      const std::size_t more = lines.size() - kMaxReported;
      lines.resize(kMaxReported);
      lines.push_back(str("... and ", more, " more; correct these first"));
    }
    throw Error(Code::kUsage, join(lines, "\n"));
  }
};

/// Reads the members of one object. Faults are added to the list, and a value without one is returned.
class Section {
 public:
  /// `json`: null if it is missing, which is reported already. `key`: the full one, or "".
  Section(const Json* json, std::string key, Faults& faults)
      : json_(json), key_(std::move(key)), faults_(faults) {
    if (json_ == nullptr || json_->is_object()) return;
    faults_.add(key_.empty() ? "the file" : key_, str("is ", shown(*json_), "; expected an object"));
    json_ = nullptr;
  }

  Section section(const char* name, const std::string& expected = "an object") {
    return {member(name, expected), full(name), faults_};
  }

  [[nodiscard]] bool has(const char* name) const { return json_ != nullptr && json_->contains(name); }

  std::string text(const char* name) {
    const Json* found = member(name, "a text");
    if (found == nullptr) return "";
    if (found->is_string() && !found->get_ref<const std::string&>().empty()) return found->get<std::string>();
    faults_.add(full(name), str("is ", shown(*found), "; expected a text"));
    return "";
  }

  /// Member "value" of a measured number.
  double value(const Range& range) {
    const Json* found = member("value", range.expected);
    if (found == nullptr) return 0;
    const double value = found->is_number() ? found->get<double>() : 0;
    if (std::isfinite(value) && value > 0 && value >= range.least && value <= range.most) return value;
    faults_.add(full("value"), str("is ", shown(*found), "; expected ", range.expected));
    return 0;
  }

  /// Member "per" of a network's rate: whether the node's GPUs share it.
  bool per_node() {
    const Json* found = member("per", "node or gpu");
    if (found == nullptr || *found == "gpu") return false;
    if (*found == "node") return true;
    faults_.add(full("per"), str("is ", shown(*found), "; expected node or gpu"));
    return false;
  }

  /// {"value": 1.5, "source": "where it is from"}
  double number(const char* name, const Range& range) {
    Section measured = section(name, str("an object with \"value\", ", range.expected, ", and \"source\""));
    const double value = measured.value(range);
    (void)measured.text("source");
    measured.finish();
    return value;
  }

  /// Reports members that nobody asked for.
  void finish() {
    if (json_ == nullptr) return;
    for (const auto& item : json_->items())
      if (std::ranges::find(asked_, item.key()) == asked_.end())
        faults_.add(full(printable(item.key(), 60)), str("is unknown; expected only ", join(asked_, ", ")));
  }

 private:
  [[nodiscard]] std::string full(const std::string& name) const {
    return key_.empty() ? name : str(key_, '.', name);
  }

  const Json* member(const char* name, const std::string& expected) {
    asked_.emplace_back(name);
    if (json_ == nullptr) return nullptr;
    const auto found = json_->find(name);
    if (found != json_->end()) return &*found;
    faults_.add(full(name), str("is missing; expected ", expected));
    return nullptr;
  }

  const Json* json_;
  std::string key_;
  Faults& faults_;
  std::vector<std::string> asked_;
};

Link read_link(Section section, bool has_latency) {
  Link link;
  link.bytes_per_s = section.number("bytes_per_s", kRate);
  link.achieved = section.number("achieved", kFraction);
  if (has_latency) link.latency_s = section.number("latency_s", kSeconds);
  section.finish();
  return link;
}

Device::Achieved read_achieved(Section section) {
  Device::Achieved achieved;
  achieved.product = section.number("product", kFraction);
  achieved.attention_forward = section.number("attention_forward", kFraction);
  achieved.attention_backward = section.number("attention_backward", kFraction);
  achieved.memory = section.number("memory", kFraction);
  section.finish();
  return achieved;
}

Device read_device(Section section, bool named) {
  Device device;
  if (named) device.name = section.text("name");
  device.title = section.text("title");
  device.memory_bytes = section.number("memory_bytes", kMemory);
  device.memory_bytes_per_s = section.number("memory_bytes_per_s", kRate);
  Section flops = section.section("flops");
  for (const char* type : {"bf16", "fp16", "tf32", "fp32"}) device.flops[type] = flops.number(type, kFlops);
  if (flops.has("fp8")) device.flops["fp8"] = flops.number("fp8", kFlops);
  flops.finish();
  device.achieved = read_achieved(section.section("achieved"));
  device.kernel_s = section.number("kernel_s", kSeconds);
  device.launch_s = section.number("launch_s", kSeconds);
  device.collective_share = section.number("collective_share", kFraction);
  device.context_bytes = section.number("context_bytes", kContext);
  device.peer = read_link(section.section("peer"), true);
  device.host = read_link(section.section("host"), false);
  section.finish();
  return device;
}

Network read_network(Section section, bool named) {
  Network network;
  if (named) network.name = section.text("name");
  network.title = section.text("title");
  Section rate = section.section("bytes_per_s");
  network.link.bytes_per_s = rate.value(kRate);
  network.per_node = rate.per_node();
  (void)rate.text("source");
  rate.finish();
  network.link.achieved = section.number("achieved", kFraction);
  network.link.latency_s = section.number("latency_s", kSeconds);
  section.finish();
  return network;
}

/// The profiles that are compiled in.
struct Builtin {
  const char* what;
  const char* file;
  const char* text;

  [[nodiscard]] Json json() const { return parse_foreign_json(text, file, Code::kUsage); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const Json profiles = json(); const auto& item : profiles.items()) found.push_back(item.key());
    return found;
  }
};
constexpr Builtin kDevices{"device", "devices.json", kDevicesJson};
constexpr Builtin kNetworks{"network", "networks.json", kNetworksJson};

bool is_file(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json");
}

std::string file_name(const std::string& path) {
  return printable(path, 200);
}

/// "did you mean a100-40g or a100-80g? ": those that `name` begins, else the nearest one; or "".
std::string meant(const std::string& name, const std::vector<std::string>& known) {
  std::vector<std::string> longer;
  std::ranges::copy_if(known, std::back_inserter(longer),
                       [&](const std::string& one) { return !name.empty() && one.starts_with(name); });
  const std::string near = longer.empty() ? nearest(name, known) : join(longer, " or ");
  return near.empty() ? "" : str("did you mean ", near, "? ");
}

/// The object of a profile.
Json find(const Builtin& builtin, const std::string& name_or_file) {
  if (is_file(name_or_file)) {
    const std::string text = fs::read_file(name_or_file, kMaxFileBytes, Code::kUsage);
    return parse_foreign_json(text, file_name(name_or_file), Code::kUsage);
  }
  Json profiles = builtin.json();
  const auto found = profiles.find(in_lower_case(name_or_file));
  if (found != profiles.end()) return std::move(*found);
  const std::vector<std::string> known = builtin.names();
  throw Error(Code::kUsage, "no ", builtin.what, " is called '", printable(name_or_file), "'; ",
              meant(in_lower_case(name_or_file), known), "known are ", join(known, ", "),
              ", and files that end in .json");
}

/// `read`: reads the object of a profile, with its name if it is of a file.
template <class Profile>
Profile found(const Builtin& builtin, Profile (*read)(Section, bool named), const std::string& name_or_file) {
  const bool file = is_file(name_or_file);
  const Json json = find(builtin, name_or_file);
  Faults faults{file ? file_name(name_or_file) : builtin.file};
  Profile profile = read({&json, file ? "" : name_or_file, faults}, file);
  faults.raise_if_any();
  if (!file) profile.name = in_lower_case(name_or_file);
  return profile;
}

}  // namespace

std::vector<std::string> device_names() {
  return kDevices.names();
}

std::string device_of_gpu(const std::string& name) {
  std::string spaced = in_lower_case(name);
  std::ranges::replace_if(
      spaced, [](char c) { return c == '-' || c == '_'; }, ' ');
  const std::vector<std::string> words = split(spaced, ' ');
  const auto has = [&](const std::string& word) { return std::ranges::find(words, word) != words.end(); };
  if (has("pcie") || has("nvl")) return "";
  for (const std::string& known : kDevices.names()) {
    const std::size_t dash = known.find('-');
    if (has(known.substr(0, dash)) && (dash == known.npos || has(known.substr(dash + 1) + 'b'))) return known;
  }
  return "";
}

std::vector<std::string> network_names() {
  return kNetworks.names();
}

Device find_device(const std::string& name_or_file) {
  Device device = found(kDevices, read_device, name_or_file);
  device.compiled_in = !is_file(name_or_file);
  return device;
}

Network find_network(const std::string& name_or_file) {
  return found(kNetworks, read_network, name_or_file);
}

}  // namespace echelon::forecast
