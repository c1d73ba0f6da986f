// A reader of JSON text that builds nothing: for the lists of a tokenizer's tokens, which have 150 000 entries.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hone::text {

// Throws Error(config) that begins with `what` and says the line and column. `text` must outlive it; one thread.
// REQUIRES: text is well-formed UTF-8.
class JsonCursor {
 public:
  JsonCursor(std::string_view text, const std::string& what, std::size_t at = 0) : text_(text), what_(what), at_(at) {}

  std::size_t at() const { return at_; }
  // The next character that is no blank; it stays. '\0': the text has ended.
  char peek();
  // Takes this character, or fails.
  void expect(char c);
  // Takes this character if it comes next.
  bool maybe(char c);
  // A string; valid until the next call (a view of the text itself where nothing is escaped).
  std::string_view string();
  // Any value, unseen but for brackets and strings: its text.
  std::string_view skip();
  [[noreturn]] void fail(const std::string& fact) const;

  // Calls each(i) for every element of a list; each must read it.
  template <class Each>
  void each_element(Each&& each) {
    expect('[');
    if (maybe(']')) return;
    for (std::size_t i = 0;; ++i) {
      each(i);
      if (maybe(']')) return;
      expect(',');
    }
  }
  // Calls each(key) for every member of an object; each must read the value.
  template <class Each>
  void each_member(Each&& each) {
    expect('{');
    if (maybe('}')) return;
    for (;;) {
      peek();
      const std::string_view key = string();
      expect(':');
      each(key);
      if (maybe('}')) return;
      expect(',');
    }
  }

 private:
  void escape();
  unsigned hex4();
  std::string_view text_;
  const std::string& what_;
  std::size_t at_;
  std::string unescaped_;
};

}  // namespace hone::text
