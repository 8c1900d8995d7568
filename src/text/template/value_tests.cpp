#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/template/builtins.h"

namespace echelon::data::jinja {
namespace {

template <bool (*kHolds)(const Value&)>
Value holds(Tools&, const Value& self, const Bound&) {
  return kHolds(self);
}

template <class Kind>
Value is_of(Tools&, const Value& self, const Bound&) {
  return self.is<Kind>();
}

bool is_defined(const Value& value) {
  return !value.is<Undefined>();
}
bool is_sequence(const Value& value) {
  return value.is<TextPtr>() || value.is<DictPtr>() || value.is<Undefined>() ||
         (value.list() != nullptr && value.list()->kind <= ListKind::kRange);
}
bool is_iterable(const Value& value) {
  return is_sequence(value) || value.is<ListPtr>() || value.is<LoopPtr>();
}
bool is_yes(const Value& value) {
  return value.is<bool>() && is_true(value);
}
bool is_no(const Value& value) {
  return value.is<bool>() && !is_true(value);
}
bool is_callable(const Value& value) {
  return value.is<Callable>() || value.is<Undefined>();
}

template <const char* kSign>
Value compared(Tools& tools, const Value& self, const Bound& given) {
  if (!given[0]) throw Error(Code::kData, "the test '", kSign, "' takes a value");
  return compare(tools, kSign, self, *given[0]);
}

constexpr char kEqual[] = "==";
constexpr char kUnequal[] = "!=";
constexpr char kIn[] = "in";

template <int kRest>
Value parity(Tools&, const Value& self, const Bound&) {
  return integer_of(self) % 2 == kRest || integer_of(self) % 2 == -kRest;
}

constexpr std::array kTests{
    Builtin{"defined", "", holds<is_defined>},
    Builtin{"undefined", "", is_of<Undefined>},
    Builtin{"none", "", is_of<None>},
    Builtin{"string", "", is_of<TextPtr>},
    Builtin{"mapping", "", is_of<DictPtr>},
    Builtin{"sequence", "", holds<is_sequence>},
    Builtin{"iterable", "", holds<is_iterable>},
    Builtin{"boolean", "", is_of<bool>},
    Builtin{"integer", "", is_of<std::int64_t>},
    Builtin{"float", "", is_of<double>},
    Builtin{"number", "", holds<is_number>},
    Builtin{"true", "", holds<is_yes>},
    Builtin{"false", "", holds<is_no>},
    Builtin{"callable", "", holds<is_callable>},
    Builtin{"odd", "", parity<1>},
    Builtin{"even", "", parity<0>},
    Builtin{"equalto", "other", compared<kEqual>},
    Builtin{"eq", "other", compared<kEqual>},
    Builtin{"ne", "other", compared<kUnequal>},
    Builtin{"in", "other", compared<kIn>},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  return find_in(kTests, name);
}

}  // namespace echelon::data::jinja
