// nlohmann parses; what it does not refuse (depth, duplicate keys, size) is checked by a SAX filter in front of it.
#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <type_traits>

#include "base/env.h"
#include "base/strings.h"

namespace hone::io {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxOrderedKeys = 10'000;

// Where byte `at` of the text is, from 1.
std::pair<std::int64_t, std::int64_t> line_and_column(std::string_view text, std::size_t at) {
  at = std::min(at, text.size());
  const std::string_view before = text.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto last = before.rfind('\n');
  return {line, static_cast<std::int64_t>(last == std::string_view::npos ? at + 1 : at - last)};
}

// Builds the value while it counts depth and watches keys; iterative, because nlohmann's SAX parser is.
template <class Json>
class Filter {
 public:
  explicit Filter(const JsonLimits& limits)
      : builder_(value_, false), depth_(limits.depth), keeps_integers_(limits.keeps_integers) {}
  Json take() { return std::move(value_); }
  const std::string& fact() const { return fact_; }
  std::size_t position() const { return position_; }

  bool null() { return builder_.null(); }
  bool boolean(bool v) { return builder_.boolean(v); }
  bool number_integer(json::number_integer_t v) { return builder_.number_integer(v); }
  bool number_unsigned(json::number_unsigned_t v) { return builder_.number_unsigned(v); }
  bool number_float(json::number_float_t v, const std::string& text) {
    if (!keeps_integers_ || text.find_first_of(".eE") != std::string::npos) return builder_.number_float(v, text);
    json::binary_t digits(std::vector<std::uint8_t>(text.begin(), text.end()));  // JSON itself has no binary values
    return builder_.binary(digits);
  }
  bool string(std::string& v) { return builder_.string(v); }
  bool binary(json::binary_t& v) { return builder_.binary(v); }
  bool start_object(std::size_t n) {
    keys_.emplace_back();
    return deeper() && builder_.start_object(n);
  }
  bool key(std::string& name) {
    // Objects that keep their order search from the front.
    constexpr bool ordered = std::is_same_v<Json, nlohmann::ordered_json>;
    if (ordered && keys_.back().size() >= kMaxOrderedKeys)
      return refuse(fmt::format("an object of more than {} keys", kMaxOrderedKeys));
    if (!keys_.back().insert(name).second) return refuse("the key " + hone::quoted(name) + " is given twice");
    return builder_.key(name);
  }
  bool end_object() {
    keys_.pop_back();
    --now_;
    return builder_.end_object();
  }
  bool start_array(std::size_t n) { return deeper() && builder_.start_array(n); }
  bool end_array() {
    --now_;
    return builder_.end_array();
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    position_ = position;
    fact_ = "not JSON";
    const std::string text = error.what();  // "...: syntax error while parsing value - unexpected ...; expected ..."
    if (const auto dash = text.find(" - "); dash != std::string::npos)
      fact_ += ": " + text.substr(dash + 3);
    else if (text.find("out_of_range") != std::string::npos)
      fact_ = "a number is out of range";
    fact_ = escape_for_terminal(fact_, 200);
    return false;
  }

 private:
  bool deeper() { return ++now_ <= depth_ || refuse(fmt::format("nested deeper than {}", depth_)); }
  bool refuse(std::string fact) {
    fact_ = std::move(fact);
    return false;
  }

  Json value_;
  nlohmann::detail::json_sax_dom_parser<Json> builder_;
  int depth_, now_ = 0;
  bool keeps_integers_;
  std::vector<std::set<std::string>> keys_;
  std::string fact_;
  std::size_t position_ = 0;
};

template <class Json, class Where>
Json parse_as(std::string_view text, const JsonLimits& limits, Where&& where) {
  if (text.size() > limits.bytes)
    throw Error(limits.kind, fmt::format("{}: {}, expected at most {}", where(0), human_size(text.size()),
                                         human_size(limits.bytes)));
  // nlohmann takes a NUL for the end of its input, and would not look at what comes after.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos)
    throw Error(limits.kind, where(nul + 1) + ": not JSON: a NUL byte");
  Filter<Json> filter(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &filter))
    throw Error(limits.kind, where(filter.position()) + ": " + filter.fact());
  return filter.take();
}

template <class Json>
Json parse_whole(std::string_view text, const std::string& what, const JsonLimits& limits) {
  return parse_as<Json>(text, limits, [&](std::size_t at) {
    if (at == 0) return what;
    const auto [line, column] = line_and_column(text, at - 1);
    return fmt::format("{}:{}:{}", what, line, column);
  });
}

template <class Json>
Json parse_line(std::string_view text, const std::string& file, std::int64_t line, const JsonLimits& limits) {
  return parse_as<Json>(text, limits, [&](std::size_t at) {
    return at == 0 ? fmt::format("{}:{}", file, line) : fmt::format("{}:{}:{}", file, line, at);
  });
}

}  // namespace

json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits) {
  return parse_whole<json>(text, what, limits);
}
json parse_json_line(std::string_view text, const std::string& file, std::int64_t line, const JsonLimits& limits) {
  return parse_line<json>(text, file, line, limits);
}
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& what, const JsonLimits& limits) {
  return parse_whole<nlohmann::ordered_json>(text, what, limits);
}
nlohmann::ordered_json parse_ordered_json_line(std::string_view text, const std::string& file, std::int64_t line,
                                               const JsonLimits& limits) {
  return parse_line<nlohmann::ordered_json>(text, file, line, limits);
}

std::optional<std::string> find_big_integer(const nlohmann::ordered_json& value) {
  if (value.is_binary()) return std::string(value.get_binary().begin(), value.get_binary().end());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return value.dump();
  if (!value.is_structured()) return std::nullopt;
  for (const nlohmann::ordered_json& one : value)
    if (auto found = find_big_integer(one)) return found;
  return std::nullopt;
}

json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(InFile(path, limits.kind).read_all(limits.bytes), path.string(), limits);
}

}  // namespace hone::io
