// Any bytes as a chat template: what is neither refused nor rendered within its limits is a fault, and so are
// runs that do not cover the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/foreign_json.h"
#include "text/template/chat_template.h"

std::vector<std::string> fuzz_seeds() {
  return {
      "{%- for m in messages if m.role != 'x' %}{{ '<|im_start|>' + m['role'] ~ '\\n' }}{% if loop.last and "
      "not "
      "loop.first %}{% generation %}{{ m.content | trim }}{% endgeneration %}{% elif loop.index0 % 2 == 1 %}"
      "{% continue %}{% else %}{{ m.content[::-1] }}{% endif %}{% else %}none{% endfor %}",
      "{%- macro show(a, b='x') -%}{{ a | tojson(indent=2) }}{% if b is string %}{{ show(a[0], none) }}{% "
      "endif %}"
      "{%- endmacro -%}{% set ns = namespace(n=0, s='') %}{% for i in range(3, 30, 10) %}{% set ns.n = ns.n "
      "+ i %}"
      "{% set ns.s = [ns.s, ns.n] %}{% endfor %}{{ ns.s }}{{ show(tools) }}{% set q %} {{ ns.n }}{% endset "
      "%}{{ q }}",
      "{# note -#} {{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', "
      "') | "
      "upper }}{{ {'b': 1.5, 'a': [(1,), true]} | dictsort | list }}{{ 'a,b'.split(',', 1)[-1].replace('b', "
      "'cc') }}"
      "{{ tools | length if tools is sequence else x | default(7) }}",
      "{{ raise_exception('no') if messages[0].role == 'system' }}{{ 'x' * 99999 }}{{ strftime_now('%Y') * 3 "
      "}}"
      "{% for k, v in tools[0].items() %}{{ k ~ v }}{% endfor %}{{ dict(a=1).get('a') // 2 - -3 }}",
  };
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Json = nlohmann::ordered_json;
  static const Json messages = {
      {{"role", "user"}, {"content", "a \xC3\xA9"}},
      {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({1, nullptr})}}};
  static const Json tools = {{{"name", "f"}, {"items", 1}}};
  static const Json variables = {{"bos_token", "<s>"}};
  echelon::ChatTemplateLimits limits;
  limits.work = 300'000;
  limits.characters = 10'000;
  try {
    const echelon::ChatTemplate chat_template({reinterpret_cast<const char*>(data), size}, "fuzzed", limits);
    const echelon::RenderedChat chat = chat_template.render({messages, tools, variables, true, 0});
    std::size_t end = 0;
    for (const echelon::ChatRun& run : chat.runs) {
      if (run.end <= end || run.message < -2 || run.message > 1) std::abort();
      end = run.end;
    }
    if (end != chat.text.size()) std::abort();
  } catch (const echelon::Error& error) {
    if (error.code() != echelon::Code::kData || !std::string_view(error.what()).starts_with("fuzzed:"))
      std::abort();
  }
  return 0;
}
