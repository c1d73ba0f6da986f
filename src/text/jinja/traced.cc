// Origins of texts: cutting, joining, and reading them from values.
#include "text/jinja/traced.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "text/jinja/budget.h"

namespace hone::jinja {
namespace {

void add_stretch(Origins& to, Stretch more) {
  if (more.source == 0 || more.begin == more.end) return;
  if (!to.empty() && to.back().end == more.begin && to.back().source == more.source)
    to.back().end = more.end;
  else
    to.push_back(more);
}

// Those of the bytes [begin, end), moved to `at`.
void add_stretches(Origins& to, const Origins& from, std::size_t begin, std::size_t end, std::size_t at) {
  auto it = std::partition_point(from.begin(), from.end(), [&](const Stretch& one) { return one.end <= begin; });
  for (; it != from.end() && it->begin < end; ++it)
    add_stretch(to, {std::max(it->begin, begin) - begin + at, std::min(it->end, end) - begin + at, it->source});
}

// Where `part` lies in the bytes of `text`; npos: elsewhere.
std::size_t place_in(const Value& text, std::string_view part) {
  const std::string& bytes = text.bytes();
  const std::less_equal<const char*> before;
  const char* const end = bytes.data() + bytes.size();
  const bool inside = before(bytes.data(), part.data()) && before(part.data() + part.size(), end);
  return inside ? static_cast<std::size_t>(part.data() - bytes.data()) : std::string::npos;
}

}  // namespace

void Traced::add(const Value& value) { add(value.bytes(), value.origins()); }

void Traced::add(std::string_view part, const Value& of) {
  const std::size_t at = of.origins().empty() ? std::string::npos : place_in(of, part);
  if (at != std::string::npos) add_stretches(origins, of.origins(), at, at + part.size(), text.size());
  text += part;
}

void Traced::add(std::string_view more, const Origins& theirs) {
  add_stretches(origins, theirs, 0, more.size(), text.size());
  text += more;
}

void Traced::add(std::string_view more, Source source) {
  add_stretch(origins, {text.size(), text.size() + more.size(), source});
  text += more;
}

Value to_value(Traced traced, bool markup) {
  return Value::string(std::move(traced.text), markup, std::move(traced.origins));
}

Value part_of(const Value& text, std::string_view part) {
  Traced made;
  made.add(part, text);
  return to_value(std::move(made), text.markup());
}

Source source_of(const Value& value) {
  Budget::take_steps(1);  // a value may hold another one many times
  Source source = 0;
  if (value.is(Kind::string))
    for (const Stretch& one : value.origins()) source = mixed(source, one.source);
  if (value.is_sequence())
    for (const Value& item : value.items()) source = mixed(source, source_of(item));
  if (value.is(Kind::dict))
    for (const auto& [key, item] : value.dict().entries())
      source = mixed(source, mixed(source_of(key), source_of(item)));
  if (value.is(Kind::view)) return source_of(value.as<View>().dict);
  return source;
}

Value traced_to(Source source, Value made) {
  if (source == 0 || !made.is(Kind::string) || !made.origins().empty() || made.bytes().empty()) return made;
  return Value::string(made.bytes(), made.markup(), {{0, made.bytes().size(), source}});
}

Value marked(const Value& value, Source source) {
  if (value.is(Kind::string)) return traced_to(source, value);
  if (value.is(Kind::list)) {
    Values items;
    for (const Value& item : value.items()) items.push_back(marked(item, source));
    return Value::list(std::move(items));
  }
  if (!value.is(Kind::dict)) return value;
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, item] : value.dict().entries()) dict->set(key, marked(item, source));
  return Value::dict(std::move(dict));
}

}  // namespace hone::jinja
