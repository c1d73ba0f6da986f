// json.dumps() and json.loads() of the values of a template.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "text/jinja/budget.h"
#include "text/jinja/compare.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return repr_of(value);
}

class Writer {
 public:
  explicit Writer(const JsonForm& form) : form_(form) {}
  std::string take() { return std::move(out_); }

  void write(const Value& value) {
    switch (value.kind()) {
      case Kind::none:
        return add("null");
      case Kind::boolean:
        return add(value.as_bool() ? "true" : "false");
      case Kind::integer:
        return add(std::to_string(value.as_int()));
      case Kind::real:
        return add(json_number(value.as_real()));
      case Kind::string:
        return write_text(value.bytes());
      case Kind::list:
      case Kind::tuple:
        return write_list(value.items());
      case Kind::dict:
        return write_dict(value.dict());
      default:
        fail_type(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

 private:
  void add(std::string_view part) {
    Budget::check_text(out_.size() + part.size());
    Budget::take_steps(1);
    out_ += part;
  }

  void new_line() {
    if (!form_.indent) return;
    add("\n");
    for (int i = 0; i < depth_; ++i) add(*form_.indent);
  }

  template <class Each>
  void write_items(char open, char close, std::size_t size, Each&& each) {
    add(std::string_view(&open, 1));
    if (size != 0) {
      ++depth_;
      for (std::size_t i = 0; i < size; ++i) {
        if (i) add(form_.item_separator);
        new_line();
        each(i);
      }
      --depth_;
      new_line();
    }
    add(std::string_view(&close, 1));
  }

  void write_list(const Values& items) {
    write_items('[', ']', items.size(), [&](std::size_t i) { write(items[i]); });
  }

  void write_dict(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (form_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(),
                       [](const Dict::Entry* a, const Dict::Entry* b) { return less(a->first, b->first); });
    write_items('{', '}', entries.size(), [&](std::size_t i) {
      write_text(key_text(entries[i]->first));
      add(form_.key_separator);
      write(entries[i]->second);
    });
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return key.bytes();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.as_bool() ? "true" : "false";
      case Kind::integer:
        return std::to_string(key.as_int());
      case Kind::real:
        return json_number(key.as_real());
      default:
        fail_type(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    }
  }

  void write_text(std::string_view text) {
    std::string quoted = "\"";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const char32_t c = text::next_code_point(text, at);
      if (const char* escape = short_escape(c))
        quoted += escape;
      else if (c < 0x20 || (form_.ensure_ascii && c > 0x7E))
        append_unicode_escape(quoted, c);
      else
        quoted += text.substr(begin, at - begin);
    }
    add(quoted += '"');
  }

  static const char* short_escape(char32_t c) {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        return nullptr;
    }
  }

  static void append_unicode_escape(std::string& to, char32_t c) {
    if (c > 0xFFFF) {
      const unsigned rest = static_cast<unsigned>(c) - 0x10000;
      to += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      to += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }
  }

  const JsonForm& form_;
  std::string out_;
  int depth_ = 0;
};

// Builds values while nlohmann parses; iterative, so only the values' own depth counts.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Value take() { return std::move(root_); }
  const std::string& fact() const { return fact_; }

  bool null() override { return put(Value()); }
  bool boolean(bool value) override { return put(Value::boolean(value)); }
  bool number_integer(std::int64_t value) override { return put(Value::integer(value)); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > INT64_MAX) return refuse(fmt::format("the integer {} does not fit 64 bits", value));
    return put(Value::integer(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos)
      return refuse(fmt::format("the integer {} does not fit 64 bits", escape_for_terminal(text, 40)));
    return put(Value::real(value));
  }
  bool string(std::string& value) override { return put(Value::string(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open({std::make_shared<Dict>(), {}, {}}); }
  bool start_array(std::size_t) override { return open({}); }
  bool key(std::string& name) override {
    stack_.back().key = std::move(name);
    return true;
  }
  bool end_object() override {
    Open closed = std::move(stack_.back());
    stack_.pop_back();
    return put(Value::dict(std::move(closed.dict)));
  }
  bool end_array() override {
    Open closed = std::move(stack_.back());
    stack_.pop_back();
    return put(Value::list(std::move(closed.items)));
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(fmt::format("not JSON at byte {}", position));
  }

 private:
  struct Open {
    std::shared_ptr<Dict> dict;  // null: a list
    Values items;
    std::string key;
  };
  bool open(Open container) {
    if (stack_.size() >= 100) return refuse("nested deeper than 100");
    stack_.push_back(std::move(container));
    return true;
  }
  bool put(Value value) {
    if (stack_.empty())
      root_ = std::move(value);
    else if (stack_.back().dict)
      stack_.back().dict->set(stack_.back().key, std::move(value));
    else
      stack_.back().items.push_back(std::move(value));
    return true;
  }
  bool refuse(std::string fact) {
    fact_ = std::move(fact);
    return false;
  }

  Value root_;
  std::vector<Open> stack_;
  std::string fact_;
};

}  // namespace

std::string to_json(const Value& value, const JsonForm& form) {
  Writer writer(form);
  writer.write(value);
  return writer.take();
}

Value from_json(std::string_view text, std::string_view what) {
  if (const auto nul = text.find('\0'); nul != std::string_view::npos)
    fail(fmt::format("{}: not JSON: a NUL byte", what));
  Builder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) fail(fmt::format("{}: {}", what, builder.fact()));
  return builder.take();
}

}  // namespace hone::jinja
