// From a JSON Schema to the texts of JSON by it.
//
// Where a schema leaves open how a value is written, the grammar allows what models write: properties in the order of
// the schema, blanks as JsonParts has them, no additional properties where the schema names some and says nothing of
// others.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>

#include "hone/error.h"
#include "text/form/grammar.h"
#include "text/form/json_numbers.h"
#include "text/form/json_parts.h"
#include "text/form/schema_merge.h"

namespace hone::text {
namespace {

constexpr std::string_view kDate =
    R"([12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))";
constexpr std::string_view kTime = R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
constexpr std::string_view kByte = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
constexpr std::string_view kName = R"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)";
constexpr std::string_view kAddress = R"([A-Za-z0-9._~%+-])";  // a character of a URI's path

std::optional<std::string> pattern_of_format(const std::string& format) {
  if (format == "date") return std::string(kDate);
  if (format == "time") return std::string(kTime);
  if (format == "date-time") return fmt::format("{}T{}", kDate, kTime);
  if (format == "duration") return R"(P(\d+W|(\d+Y)?(\d+M)?\d+D|(\d+Y)?\d+M|\d+Y|((\d+D)?)T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)))";
  if (format == "uuid") return "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
  if (format == "ipv4") return fmt::format(R"(({0}\.){{3}}{0})", kByte);
  if (format == "ipv6") return R"(([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|([0-9a-f]{1,4}(:[0-9a-f]{1,4}){0,2})?::([0-9a-f]{1,4}(:[0-9a-f]{1,4}){0,2})?)";
  if (format == "hostname") return fmt::format(R"({0}(\.{0}){{0,3}})", kName);
  if (format == "email") return fmt::format(R"([A-Za-z0-9_%+-]+(\.[A-Za-z0-9_%+-]+)*@{0}(\.{0}){{1,3}})", kName);
  if (format == "uri")
    return fmt::format(R"([a-z][a-z0-9+.-]*://{0}(\.{0}){{0,5}}(:\d{{1,5}})?(/{1}*)*(\?[A-Za-z0-9._~%+=&-]*)?(#{1}*)?)", kName,
                       kAddress);
  return std::nullopt;
}

class SchemaReader {
 public:
  SchemaReader(std::string_view schema, const std::string& what)
      : what_(what), document_(schema, what), builder_(what), parts_(builder_, what) {}

  Grammar read() {
    const std::int32_t whole = builder_.rule();
    const auto [entry, exit] = builder_.at(whole);
    const std::int32_t begin = builder_.node();  // behind a prompt an answer often begins with a blank
    builder_.empty(entry, begin);
    builder_.bytes(entry, begin, ' ', ' '), builder_.bytes(entry, begin, '\n', '\n');
    value({document_.root(), "#"}, begin, exit);
    for (; !waiting_.empty(); waiting_.pop_front()) {
      const auto& [rule, schema] = waiting_.front();
      const Grammar::Rule ends = builder_.at(rule);
      value(schema, ends.entry, ends.exit);
    }
    return builder_.take();
  }

 private:
  // Any value that is by the schema.
  void value(const SchemaAt& given, std::int32_t from, std::int32_t to) {
    if (++depth_ > kDeepest) document_.fail(given.path, "parts are nested too deep");
    const SchemaAt at = document_.plain(given);
    if (at.schema.is_boolean()) {
      if (at.schema.get<bool>()) parts_.any(from, to);
    } else if (at.schema.contains("$ref")) {
      builder_.call(from, to, rule_of(at));
    } else {
      constrained(at, from, to);
    }
    --depth_;
  }

  // By a rule of its own: for what is used more than once, or refers to itself.
  std::int32_t rule_of(const SchemaAt& at) {
    const std::string reference = at.schema["$ref"].get<std::string>();
    const auto [found, is_new] = rules_.try_emplace(reference, -1);
    if (is_new) {
      found->second = builder_.rule();
      waiting_.emplace_back(found->second, SchemaAt{document_.target(reference, at.path), reference});
    }
    return found->second;
  }
  std::int32_t own_rule(const SchemaAt& at) {
    const std::int32_t rule = builder_.rule();
    const Grammar::Rule ends = builder_.at(rule);
    value(at, ends.entry, ends.exit);
    return rule;
  }

  void constrained(const SchemaAt& at, std::int32_t from, std::int32_t to) {
    document_.check_keywords(at);
    for (const char* key : {"anyOf", "oneOf"})
      if (at.schema.contains(key)) return choice(at, key, from, to);
    const std::vector<std::string> types = document_.types(at.schema);
    if (const auto values = listed_values(at.schema)) return listed(at, *values, types, from, to);
    if (SchemaDocument::says_nothing(at.schema)) return parts_.any(from, to);
    for (const std::string& type : types) {
      if (type == "integer" && std::ranges::count(types, "number") > 0) continue;
      of_type(type, at, from, to);
    }
  }

  void choice(const SchemaAt& at, const std::string& key, std::int32_t from, std::int32_t to) {
    SchemaAt base = at;
    base.schema.erase(key);
    std::vector<SchemaAt> options;
    for (std::size_t i = 0; i < at.schema[key].size(); ++i) {
      const SchemaAt option{at.schema[key][i], fmt::format("{}/{}/{}", at.path, key, i)};
      options.push_back(SchemaDocument::says_nothing(base.schema) ? option : document_.merged(base, option));
    }
    for (std::size_t i = 0; key == "oneOf" && i < options.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (!document_.are_apart(options[i], options[j]))
          document_.fail(at.path + "/oneOf", fmt::format("it is not seen that no value is by both {} and {}", j, i),
                         "anyOf lets a value be by several; or give the options different types, or a required "
                         "property each with a const of its own");
    for (const SchemaAt& option : options) value(option, from, to);
  }

  void listed(const SchemaAt& at, const std::vector<Schema>& values, const std::vector<std::string>& types,
              std::int32_t from, std::int32_t to) {
    for (const auto& [key, constraint] : at.schema.items())
      if (key != "enum" && key != "const" && key != "type" && !SchemaDocument::says_nothing({{key, constraint}}))
        document_.fail(at.path + "/" + key, "beside enum or const", "leave out of the list what it forbids");
    const bool all = !at.schema.contains("type");
    for (const Schema& one : values)
      if (all || std::ranges::any_of(types, [&](const auto& type) { return is_of_type(one, type); }))
        constant(one, from, to);
  }

  // One value, with blanks where others have them.
  void constant(const Schema& one, std::int32_t from, std::int32_t to) {
    if (!one.is_structured() || one.empty()) return builder_.text(from, to, one.dump());
    std::int32_t at = parts_.text(from, one.is_object() ? "{" : "[");
    bool first = true;
    for (const auto& [name, inner] : one.items()) {
      if (!first) at = parts_.text(at, ",");
      first = false;
      at = behind_blank(at);
      if (one.is_object()) at = behind_blank(parts_.text(at, Schema(name).dump() + ":"));
      const std::int32_t next = builder_.node();
      constant(inner, at, next);
      at = next;
    }
    builder_.text(behind_blank(at), to, one.is_object() ? "}" : "]");
  }
  std::int32_t behind_blank(std::int32_t at) {
    const std::int32_t to = builder_.node();
    parts_.blank(at, to);
    return to;
  }

  void of_type(const std::string& type, const SchemaAt& at, std::int32_t from, std::int32_t to) {
    if (type == "object") return object(at, from, to);
    if (type == "array") return array(at, from, to);
    if (type == "string") return string(at, from, to);
    if (type == "null") return builder_.text(from, to, "null");
    if (type == "boolean") return builder_.text(from, to, "true"), builder_.text(from, to, "false");
    const NumberBounds bounds = bounds_of(at, type == "integer");
    const std::string pattern = type == "integer" ? integers_within(bounds) : numbers_within(bounds);
    if (!pattern.empty()) parts_.regex(from, to, pattern);
  }

  std::optional<std::int64_t> bound(const SchemaAt& at, const char* key) const {
    if (!at.schema.contains(key)) return std::nullopt;
    const Schema& value = at.schema[key];
    constexpr double kMost = 9e15;
    if (value.is_number_integer() && std::abs(value.get<double>()) <= kMost) return value.get<std::int64_t>();
    if (value.is_number_float() && std::abs(value.get<double>()) <= kMost &&
        std::trunc(value.get<double>()) == value.get<double>())
      return static_cast<std::int64_t>(value.get<double>());
    document_.fail(at.path + "/" + key, "answers are held to bounds that are whole numbers up to 9e15 alone");
  }

  // Exclusive bounds of integers are others that are not.
  NumberBounds bounds_of(const SchemaAt& at, bool is_integer) const {
    NumberBounds bounds{bound(at, "minimum"), bound(at, "maximum")};
    const auto low = bound(at, "exclusiveMinimum"), high = bound(at, "exclusiveMaximum");
    if (low && (!bounds.low || *low >= *bounds.low)) bounds.low = low, bounds.low_exclusive = true;
    if (high && (!bounds.high || *high <= *bounds.high)) bounds.high = high, bounds.high_exclusive = true;
    if (is_integer && std::exchange(bounds.low_exclusive, false)) ++*bounds.low;
    if (is_integer && std::exchange(bounds.high_exclusive, false)) --*bounds.high;
    return bounds;
  }

  void string(const SchemaAt& at, std::int32_t from, std::int32_t to) {
    const bool has_pattern = at.schema.contains("pattern"), has_format = at.schema.contains("format");
    const auto length = [&](const char* key) -> std::optional<std::int64_t> {
      if (!at.schema.contains(key)) return std::nullopt;
      return at.schema[key].get<std::int64_t>();
    };
    const auto least = length("minLength"), most = length("maxLength");
    if ((has_pattern && has_format) || ((has_pattern || has_format) && (least.value_or(0) > 0 || most)))
      document_.fail(at.path, "of pattern, format and lengths answers are held to one alone",
                     "a pattern can say how long it is, as ^[a-z]{2,5}$ does");
    if (has_pattern) {
      const std::string path = what_ + ": " + at.path + "/pattern";
      return during_pattern(path, [&] { parts_.pattern(from, to, at.schema["pattern"].get<std::string>(), false); });
    }
    if (has_format) {
      const auto pattern = pattern_of_format(at.schema["format"].get<std::string>());
      if (!pattern)
        document_.fail(at.path + "/format", fmt::format("got {}, expected date, time, date-time, duration, uuid, ipv4, "
                                                        "ipv6, hostname, email or uri",
                                                        at.schema["format"].dump()));
      return parts_.pattern(from, to, *pattern, true);
    }
    if (!least && !most) return parts_.string(from, to);
    if (!most || *most >= least.value_or(0)) parts_.string(from, to, least.value_or(0), most);
  }
  template <class Work>
  static void during_pattern(const std::string& path, Work&& work) {
    during("reading " + path, work);
  }

  void array(const SchemaAt& at, std::int32_t from, std::int32_t to) {
    Schema prefix = at.schema.value("prefixItems", Schema::array());
    Schema rest = at.schema.value("items", Schema(true));
    std::string rest_path = at.path + "/items", prefix_path = at.path + "/prefixItems";
    if (rest.is_array()) {  // as schemas had it before 2020
      std::swap(prefix_path, rest_path);
      prefix_path = at.path + "/items", rest_path = at.path + "/additionalItems";
      prefix = rest, rest = at.schema.value("additionalItems", Schema(true));
    }
    const auto least = at.schema.value("minItems", std::int64_t{0});
    std::int64_t most = at.schema.value("maxItems", std::int64_t{-1});
    const auto prefixed = std::ssize(prefix);
    if (rest == false) most = most < 0 ? prefixed : std::min<std::int64_t>(most, prefixed);
    if (most >= 0 && most < least) return;
    const bool is_any = prefixed == 0 && least == 0 && most < 0 && SchemaDocument::says_nothing(rest);
    if (is_any) return parts_.any_array(from, to);
    const std::int32_t own = rest == false ? -1 : own_rule({rest, rest_path});
    const auto element = [&](std::int64_t i, std::int32_t begin) {
      const std::int32_t end = builder_.node();
      if (i < prefixed)
        value({prefix[static_cast<std::size_t>(i)], fmt::format("{}/{}", prefix_path, i)}, begin, end);
      else
        builder_.call(begin, end, own);
      return end;
    };
    const std::int32_t inside = parts_.text(from, "["), close = builder_.node();
    builder_.text(close, to, "]");
    if (least == 0) builder_.empty(inside, close);
    const std::int64_t chain = most >= 0 ? most : std::max<std::int64_t>({least, prefixed, 1});
    std::int32_t last = inside;
    for (std::int64_t i = 0; i < chain; ++i) {
      last = element(i, behind_blank(i == 0 ? last : parts_.text(last, ",")));
      if (i + 1 >= least) parts_.blank(last, close);
    }
    if (most >= 0) return;
    const std::int32_t next = behind_blank(parts_.text(last, ","));
    builder_.call(next, last, own);
  }

  // What stands where in an object: its members in order, of which none or some were written.
  void object(const SchemaAt& at, std::int32_t from, std::int32_t to) {
    const Schema properties = at.schema.value("properties", Schema::object());
    const Schema required = at.schema.value("required", Schema::array());
    const Schema others = at.schema.value("additionalProperties", Schema(properties.empty()));
    if (properties.empty() && required.empty() && SchemaDocument::says_nothing(others))
      return parts_.any_object(from, to);
    struct Member {
      std::string name;
      SchemaAt schema;
      bool required;
    };
    std::vector<Member> members;
    std::vector<std::string> names;
    const auto is_required = [&](const std::string& name) {
      return std::ranges::any_of(required, [&](const Schema& one) { return one == name; });
    };
    for (const auto& [name, schema] : properties.items())
      members.push_back({name, {schema, at.path + "/properties/" + name}, is_required(name)}), names.push_back(name);
    for (const Schema& name : required) {
      if (std::ranges::count(names, name.get<std::string>()) > 0) continue;
      if (!at.schema.contains("additionalProperties") && !properties.empty())
        document_.fail(at.path + "/required", fmt::format("{} is not among the properties", name.dump()));
      names.push_back(name.get<std::string>());
      members.push_back({names.back(), {others, at.path + "/additionalProperties"}, true});
    }
    std::int32_t none = parts_.text(from, "{"), some = builder_.node();
    bool may_be_none = true, may_be_some = false;
    for (const Member& member : members) {
      if (!member.required && member.schema.schema == false) continue;
      const std::int32_t begin = builder_.node(), end = builder_.node();
      if (may_be_none) parts_.blank(none, begin);
      if (may_be_some) parts_.blank(parts_.text(some, ","), begin);
      value(member.schema, behind_blank(parts_.text(begin, Schema(member.name).dump() + ":")), end);
      if (member.required) may_be_none = false;
      if (may_be_some && !member.required) builder_.empty(some, end);
      some = end, may_be_some = true;
    }
    if (others != false) {
      const std::int32_t begin = builder_.node(), colon = builder_.node(), end = builder_.node();
      if (may_be_none) parts_.blank(none, begin);
      if (may_be_some) builder_.empty(some, end);
      parts_.blank(parts_.text(end, ","), begin);
      names.empty() ? parts_.string(begin, colon) : parts_.other_name(begin, colon, names);
      value({others, at.path + "/additionalProperties"}, behind_blank(parts_.text(colon, ":")), end);
      some = end, may_be_some = true;
    }
    if (may_be_none) builder_.text(none, to, "}");
    if (may_be_some) builder_.text(behind_blank(some), to, "}");
  }

  static constexpr int kDeepest = 200;
  const std::string& what_;
  SchemaDocument document_;
  GrammarBuilder builder_;
  JsonParts parts_;
  std::map<std::string, std::int32_t> rules_;  // of references
  std::deque<std::pair<std::int32_t, SchemaAt>> waiting_;
  int depth_ = 0;
};

}  // namespace

Grammar grammar_of_json_schema(std::string_view schema, const std::string& what) {
  return SchemaReader(schema, what).read();
}

}  // namespace hone::text
