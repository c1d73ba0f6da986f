// Methods of lists, dicts, ranges, loops and cyclers.
#include <fmt/format.h>

#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"

namespace hone::jinja {
namespace {

Value list_method(const Value& self, std::string_view name, Call& call) {
  if (name == "copy") {
    call.no_arguments();
    return self;
  }
  const bool index = name == "index";
  const auto bound = call.bind({"value", "start", "stop"}, 1);
  if (!index && bound[1]) fail_type("count() takes exactly one argument (2 given)");
  const Values items = to_values(self);
  const auto size = static_cast<std::int64_t>(items.size());
  const auto clipped = [&](const std::optional<Value>& at, std::int64_t otherwise) {
    const std::int64_t place = int_or(at, "index", otherwise);
    return std::clamp<std::int64_t>(place < 0 ? place + size : place, 0, size);
  };
  std::int64_t count = 0;
  for (std::int64_t i = clipped(bound[1], 0), end = clipped(bound[2], size); i < end; ++i) {
    if (!equal(items[static_cast<std::size_t>(i)], *bound[0])) continue;
    if (index) return Value::integer(i);
    ++count;
  }
  if (index) fail_type(fmt::format("{} is not in {}", to_repr(*bound[0]), type_name(self)));
  return Value::integer(count);
}

Value from_keys(Call& call) {
  const auto bound = call.bind({"iterable", "value"}, 1);
  auto dict = std::make_shared<Dict>();
  for (const Value& key : to_values(*bound[0])) dict->set(key, bound[1].value_or(Value()));
  return Value::dict(std::move(dict));
}

Value dict_method(const Value& self, std::string_view name, Call& call) {
  if (name == "fromkeys") return from_keys(call);
  if (name == "get") {
    if (!call.named.empty()) fail_type("dict.get() takes no keyword arguments");
    const auto bound = call.bind({"key", "default"}, 1);
    const Value* value = self.dict().find(*bound[0]);
    return value ? *value : bound[1].value_or(Value());
  }
  call.no_arguments();
  if (name == "copy") return self;
  const View::What what = name == "keys" ? View::What::keys : name == "values" ? View::What::values : View::What::items;
  return Value::object(Kind::view, std::make_shared<View>(self, what));
}

Value loop_method(const Value& self, std::string_view name, Call& call) {
  Loop& loop = self.as<Loop>();
  if (!call.named.empty()) fail_type(fmt::format("loop.{} takes no keyword arguments", name));
  if (name == "cycle") {
    if (call.positional.empty()) fail_type("no items for cycling given");
    return call.positional[static_cast<std::size_t>(loop.index0) % call.positional.size()];
  }
  // It may be given the loop itself: kept, so that the run can break the circle.
  if (!loop.last_changed) call.run.keep(self.shared());
  const auto same = [&] {
    if (!loop.last_changed || loop.last_changed->size() != call.positional.size()) return false;
    for (std::size_t i = 0; i < call.positional.size(); ++i)
      if (!equal((*loop.last_changed)[i], call.positional[i])) return false;
    return true;
  };
  if (same()) return Value::boolean(false);
  loop.last_changed = std::move(call.positional);
  return Value::boolean(true);
}

Value cycler_method(const Value& self, std::string_view name, Call& call) {
  call.no_arguments();
  Cycler& cycler = self.as<Cycler>();
  if (name == "reset") {
    cycler.at = 0;
    return Value();
  }
  const Value& value = cycler.values[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.values.size();
  return value;
}

}  // namespace

Value call_method(const Value& self, std::string_view name, Call& call) {
  switch (self.kind()) {
    case Kind::string:
      return call_text_method(self, name, call);
    case Kind::dict:
      return dict_method(self, name, call);
    case Kind::loop:
      return loop_method(self, name, call);
    case Kind::cycler:
      return cycler_method(self, name, call);
    case Kind::function:
      return from_keys(call);
    default:
      return list_method(self, name, call);
  }
}

}  // namespace hone::jinja
