// What every template can call: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"

namespace hone::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // of elements, as in jinja's sandbox
constexpr std::int64_t kMaxBound = std::int64_t{1} << 50;

Value make_range(Call& call) {
  if (!call.named.empty()) fail_type("range() takes no keyword arguments");
  const auto bound = call.bind({"start", "stop", "step"}, 1);
  for (const auto& one : bound)
    if (one && std::abs(int_of(*one, "range")) > kMaxBound) fail("range: a bound of more than 50 bits");
  const std::int64_t first = bound[0]->as_int();
  const auto made = std::make_shared<Range>(bound[1] ? first : 0, bound[1] ? bound[1]->as_int() : first,
                                            int_or(bound[2], "range", 1));
  if (made->step == 0) fail_type("range() arg 3 must not be zero");
  if (made->size() > kMaxRange)
    fail(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange));
  return Value::object(Kind::range, made);
}

// dict(mapping or pairs, name=value, ...)
void fill(Dict& dict, Call& call) {
  if (call.positional.size() > 1) fail_type("dict expected at most 1 argument");
  if (!call.positional.empty()) {
    const Value& from = call.positional[0];
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.dict().entries()) dict.set(key, value);
    } else {
      for (const Value& pair : to_values(from)) {
        const Values parts = to_values(pair);
        if (parts.size() != 2)
          fail_type(fmt::format("dictionary update sequence element has length {}; 2 is required", parts.size()));
        dict.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : call.named) dict.set(name, value);
}

Value make_dict(Call& call) {
  auto dict = std::make_shared<Dict>();
  fill(*dict, call);
  return Value::dict(std::move(dict));
}

Value make_space(Call& call) {
  auto space = std::make_shared<Space>();
  call.run.keep(space);
  fill(space->attributes, call);
  for (const auto& [name, value] : space->attributes.entries())
    if (name.is(Kind::string) && name.bytes().starts_with('_'))
      fail(fmt::format("a namespace cannot store names that begin with an underscore; got '{}'", name.bytes()));
  return Value::object(Kind::space, std::move(space));
}

Value make_cycler(Call& call) {
  if (!call.named.empty()) fail_type("cycler() takes no keyword arguments");
  if (call.positional.empty()) fail("at least one item has to be provided");
  return Value::object(Kind::cycler, std::make_shared<Cycler>(std::move(call.positional)));
}

Value make_joiner(Call& call) {
  const auto bound = call.bind({"sep"});
  return Value::object(Kind::joiner, std::make_shared<Joiner>(bound[0].value_or(Value::string(", "))));
}

Value raise(Call& call) {
  const auto bound = call.bind({"message"}, 1);
  fail(to_str(*bound[0]));
}

Value now(Call& call) {
  const auto bound = call.bind({"format"}, 1);
  return Value::string(strftime_of(text_of(*bound[0], "strftime_now"), call.run.now()));
}

[[noreturn]] Value random_words(Call&) { fail("the function 'lipsum' is not supported: its text is random"); }

using Global = Value (*)(Call&);
constexpr std::array<Named<Global>, 8> kGlobals = {{{"range", make_range},
                                                    {"dict", make_dict},
                                                    {"namespace", make_space},
                                                    {"cycler", make_cycler},
                                                    {"joiner", make_joiner},
                                                    {"raise_exception", raise},
                                                    {"strftime_now", now},
                                                    {"lipsum", random_words}}};

const Named<Global>* find(std::string_view name) {
  const auto it =
      std::find_if(kGlobals.begin(), kGlobals.end(), [&](const auto& entry) { return entry.first == name; });
  return it == kGlobals.end() ? nullptr : &*it;
}

}  // namespace

Cycler::Cycler(Values items) : values(std::move(items)) {
  for (const Value& value : values) depth = std::max(depth, value.depth() + 1);
  if (depth > kMaxDepth) fail(fmt::format("values nested deeper than {}", kMaxDepth));
}

std::optional<Value> find_global(std::string_view name) {
  if (!find(name)) return std::nullopt;
  return Value::object(Kind::function, std::make_shared<GlobalFunction>(std::string(name)));
}

Value call_global(std::string_view name, Call& call) { return find(name)->second(call); }

std::string strftime_of(std::string_view form, std::int64_t seconds) {
  std::string plain;  // without what Python fills in itself for a time without zone
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] != '%' || i + 1 == form.size()) {
      plain += form[i];
      continue;
    }
    const char what = form[++i];
    if (what == 'f')
      plain += "000000";
    else if (what != 'z' && what != 'Z')
      plain += {'%', what};
  }
  if (plain.size() > 1000) fail("strftime_now: a format of more than 1000 bytes");
  if (plain.empty()) return "";
  const time_t moment = seconds;
  tm local{};
  localtime_r(&moment, &local);
  std::string out(plain.size() * 64 + 256, '\0');
  plain += '.';  // so that an empty result is told from one that does not fit
  const std::size_t size = strftime(out.data(), out.size(), plain.c_str(), &local);
  if (size == 0) fail("strftime_now: the result is too long");
  out.resize(size - 1);
  return out;
}

}  // namespace hone::jinja
