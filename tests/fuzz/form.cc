// A form in the first line, a pattern or, where it begins with a brace, a JSON Schema, and a text behind it: followed
// within limits, or an error.
#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "text/form/automaton.h"

HONE_FUZZ(form) {
  using namespace hone;
  const std::string given = with_replaced_utf8(input);
  const std::size_t line = std::min(given.find('\n'), given.size());
  const std::string form = given.substr(0, line), text = given.substr(std::min(line + 1, given.size()));
  const bool is_schema = form.starts_with('{');
  text::Automaton automaton(is_schema ? text::grammar_of_json_schema(form, "fuzz")
                                      : text::grammar_of_regex(form, "fuzz"));
  const bool accepted = automaton.accepts(text);
  automaton.forget();
  fuzz::require(automaton.accepts(text) == accepted, "what is remembered changes nothing");
}
