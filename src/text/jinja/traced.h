// Which of the caller's texts each byte of a text came from: what a template makes of marked texts keeps their marks.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/origins.h"
#include "text/jinja/value.h"

namespace hone::jinja {

// A text that is put together of others, with their origins.
struct Traced {
  std::string text;
  Origins origins;
  void add(std::string_view plain) { text += plain; }
  void add(const Value& value);                           // a text
  void add(std::string_view part, const Value& of);       // part: of the bytes of that text, or plain
  void add(std::string_view more, const Origins& origins);  // origins: of `more`
  void add(std::string_view more, Source source);
};

// A text value with the origins of what it was put together of.
Value to_value(Traced traced, bool markup = false);
// A part of a text, given by a view into its bytes.
Value part_of(const Value& text, std::string_view part);
// What all texts in a value came from.
Source source_of(const Value& value);
// A text made of something from `source`, by an operation that does not say which bytes.
Value traced_to(Source source, Value made);
// A copy in which every text (not the keys of dicts) comes from `source`.
Value marked(const Value& value, Source source);

}  // namespace hone::jinja
