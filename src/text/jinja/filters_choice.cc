// Filters that choose: default, attr, and the lazy ones that apply another filter or test to each element.
#include <fmt/format.h>

#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"

namespace hone::jinja {
namespace {

using NamedValues = std::vector<std::pair<std::string, Value>>;

Value with_default(const Value& input, Call& call) {
  const auto bound = call.bind({"default_value", "boolean"});
  const bool replace = input.is(Kind::undefined) || (truth_or(bound[1], false) && !truth(input));
  return replace ? bound[0].value_or(Value::string("")) : input;
}

Value attribute(const Value& input, Call& call) {
  const auto bound = call.bind({"name"}, 1);
  const std::string& name = text_of(*bound[0], "attr");
  require_defined(input);
  if (auto found = find_attribute(call.run, input, name)) return *found;
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(input), name));
}

// Elements are asked for one by one, and so are errors: an iterator that nobody reads does nothing.
class Applied final : public Iterator {
 public:
  enum class What { map, select, reject, select_by, reject_by };
  Applied(const Value& input, Call& call, What what)
      : Iterator("generator", depth_of(input, call)),
        run_(call.run),
        what_(what),
        input_(input),
        positional_(std::move(call.positional)),
        named_(std::move(call.named)) {}

  bool next(Value& to) override {
    if (!rest_ && !begin()) return false;
    while (rest_->next(to)) {
      Budget::take_loop_step();
      if (what_ == What::map) {
        to = path_ ? path_->of(to) : call_filter(run_, name_, to, positional_, named_);
        return true;
      }
      const bool passes = holds(path_ ? path_->of(to) : to);
      if (passes == (what_ == What::select || what_ == What::select_by)) return true;
    }
    return false;
  }

 private:
  static int depth_of(const Value& input, const Call& call) {
    int deepest = input.depth();
    for (const Value& value : call.positional) deepest = std::max(deepest, value.depth());
    for (const auto& [name, value] : call.named) deepest = std::max(deepest, value.depth());
    return deepest + 1;
  }

  // Reads the arguments when the first element is asked for, as a Python generator does; false: nothing to go over.
  bool begin() {
    if (!truth(input_)) return false;
    if (what_ == What::map)
      begin_map();
    else
      begin_selection();
    rest_ = iterate(input_);
    return true;
  }

  void take_name(const char* otherwise) {
    if (positional_.empty()) fail(otherwise);
    name_ = to_str(positional_[0]);
    positional_.erase(positional_.begin());
  }

  void begin_map() {
    const auto named = [&](const char* name) -> const Value* {
      for (const auto& [known, value] : named_)
        if (known == name) return &value;
      return nullptr;
    };
    if (!positional_.empty() || !named("attribute")) return take_name("map requires a filter argument");
    const Value* otherwise = named("default");
    for (const auto& [name, value] : named_)
      if (name != "attribute" && name != "default") fail(fmt::format("Unexpected keyword argument '{}'", name));
    path_.emplace(run_, *named("attribute"), otherwise ? std::optional(*otherwise) : std::nullopt);
  }

  void begin_selection() {
    if (what_ == What::select_by || what_ == What::reject_by) {
      if (positional_.empty()) fail("Missing parameter for attribute name");
      path_.emplace(run_, positional_[0]);
      positional_.erase(positional_.begin());
    }
    if (!positional_.empty()) take_name("");
  }

  bool holds(const Value& value) {
    return name_.empty() ? truth(value) : call_test(run_, name_, value, positional_, named_);
  }

  Run& run_;
  const What what_;
  Value input_;
  Values positional_;
  NamedValues named_;
  std::string name_;  // of the filter or test; "": none
  std::optional<AttributePath> path_;
  std::shared_ptr<Iterator> rest_;
};

template <Applied::What kWhat>
Value applied(const Value& input, Call& call) {
  return Value::object(Kind::iterator, std::make_shared<Applied>(input, call, kWhat));
}

constexpr Named<Filter> kChoiceFilters[] = {{"attr", attribute},
                                            {"d", with_default},
                                            {"default", with_default},
                                            {"map", applied<Applied::What::map>},
                                            {"reject", applied<Applied::What::reject>},
                                            {"rejectattr", applied<Applied::What::reject_by>},
                                            {"select", applied<Applied::What::select>},
                                            {"selectattr", applied<Applied::What::select_by>}};

}  // namespace

std::span<const Named<Filter>> choice_filters() { return kChoiceFilters; }

}  // namespace hone::jinja
